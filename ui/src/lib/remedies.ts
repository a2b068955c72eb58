// What each remedy does, in the words of those who have to answer for it; and who vetoed it.

import type { Memory, Veto } from './types'

export const REMEDIES: Record<string, { effect: string; risk: string; undo: string }> = {
  reset_memory: {
    effect: 'The context the agent carries from turn to turn is cleared; its next turn starts fresh.',
    risk: 'low: it forgets what it was in the middle of; its messages stay',
    undo: 'no, what is cleared is gone',
  },
  rollback_prompt: {
    effect: 'The agent is told to go back to the prompt it had before.',
    risk: 'medium: what the newer prompt fixed comes back',
    undo: 'yes, by deploying the newer prompt again',
  },
  reduce_autonomy: {
    effect: 'The gateway caps its tokens and calls until the treatment is taken back.',
    risk: 'low: long answers may be cut short',
    undo: 'yes, the cap is a policy and can be removed',
  },
  revoke_tools: {
    effect: 'Its tools are taken out of its model calls by the gateway.',
    risk: 'medium: work that needs a tool fails',
    undo: 'yes, the filter is a policy and can be removed',
  },
  reset_agent: {
    effect: 'The agent is started over: memory cleared, process restarted where one is held.',
    risk: 'high: everything it kept in memory is gone',
    undo: 'no',
  },
}

export function vetoOn(memory: Memory | null, agent: string | null, diagnosis: string | undefined, action: string): Veto | undefined {
  return memory?.vetoes.find((one) => one.diagnosis === diagnosis && one.action === action && (one.agent_id === null || one.agent_id === agent))
}
