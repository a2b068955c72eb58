// What an operator does: asked for in two steps, then followed until it is in effect.

import { Problem, send } from './api'
import { live } from './live.svelte'
import type { Phase } from './types'

export interface Question {
  title: string
  // What exactly will happen, and to how many.
  effect: string
  verb: string
  danger?: boolean
  needsReason?: boolean
  // A word that has to be typed, for what cannot be undone.
  word?: string
  run: (reason: string) => Promise<void>
}

export interface Note {
  id: number
  text: string
  tone: 'asked' | 'done' | 'failed'
}

class Acts {
  question = $state.raw<Question | null>(null)
  notes = $state.raw<Note[]>([])
  #number = 0

  ask(question: Question): void {
    this.question = question
  }

  say(text: string, tone: Note['tone'] = 'done', keep = 6000): number {
    const id = ++this.#number
    this.notes = [...this.notes, { id, text, tone }].slice(-5)
    if (tone !== 'asked') setTimeout(() => this.hush(id), tone === 'failed' ? 12_000 : keep)
    return id
  }

  hush(id: number): void {
    this.notes = this.notes.filter((note) => note.id !== id)
  }

  async attempt(what: string, run: () => Promise<string | void>): Promise<boolean> {
    const id = this.say(`Requested: ${what}`, 'asked')
    try {
      const done = await run()
      this.hush(id)
      this.say(done || `In effect: ${what}`)
      return true
    } catch (error) {
      this.hush(id)
      const problem = error instanceof Problem ? `${error.message} ${error.hint}` : String(error)
      this.say(`${what}: ${problem}`, 'failed')
      return false
    }
  }
}

export const acts = new Acts()

type Verb = 'quarantine' | 'release' | 'heal'

const VERBS: Record<Verb, { effect: string; danger: boolean; settled: Phase[] }> = {
  quarantine: {
    effect: 'takes no new turns, ends or gives back what it works on, and its model calls are refused. Its messages wait and are not lost.',
    danger: true,
    settled: ['quarantined'],
  },
  release: {
    effect: 'is let out untreated; probation watches it.',
    danger: false,
    settled: ['probation', 'healthy'],
  },
  heal: {
    effect: 'is treated now, with a fresh start: what failed before may be tried again.',
    danger: false,
    settled: ['healing', 'probation', 'healthy'],
  },
}

export function askHealth(verb: Verb, agents: string[]): void {
  const { effect, danger, settled } = VERBS[verb]
  const who = agents.length === 1 ? (agents[0] ?? '') : `${agents.length} agents`
  acts.ask({
    title: `${verb[0]?.toUpperCase()}${verb.slice(1)} ${who}?`,
    effect: agents.length === 1 ? `${who} ${effect}` : `Each of ${agents.length} agents ${effect}`,
    verb: `${verb} ${who}`,
    danger,
    needsReason: true,
    run: async (reason) => {
      await acts.attempt(`${verb} ${who}`, async () => {
        const failed: string[] = []
        let phase: Phase | undefined
        for (const agent of agents) {
          try {
            const path = `v1/agents/${encodeURIComponent(agent)}/${verb}`
            phase = (await send<{ phase: Phase }>('POST', path, { reason, actor: 'dashboard' }))?.phase
          } catch (error) {
            if (agents.length === 1) throw error
            failed.push(`${agent}: ${error instanceof Error ? error.message : String(error)}`)
          }
        }
        if (failed.length === agents.length) throw new Error(failed[0])
        if (failed.length) return `${verb}: ${agents.length - failed.length} done, ${failed.length} refused (${failed[0]})`
        if (agents.length > 1) return `Requested: ${verb} ${who}`
        if (phase && settled.includes(phase)) return `In effect: ${agents[0]} is ${phase}`
        follow(agents[0] ?? '', settled)
        return `${agents[0]} is ${phase}; in effect once it is ${settled[0]}`
      })
    },
  })
}

// Say so when what was asked for is in effect.
function follow(agent: string, settled: Phase[]): void {
  const off = live.on(
    ['phase'],
    (event) => {
      if (event.agent_id === agent && settled.includes(event.phase as Phase)) {
        acts.say(`In effect: ${agent} is ${String(event.phase)}`)
        off()
      }
    },
    () => undefined,
  )
  setTimeout(off, 120_000)
}

export function askApproval(answer: 'approve' | 'reject', approval: { approval_id: string; agent_id: string; action: string }): void {
  const words = approval.action.replaceAll('_', ' ')
  const approve = answer === 'approve'
  acts.ask({
    title: approve ? `Approve “${words}” for ${approval.agent_id}?` : `Reject “${words}” for ${approval.agent_id}?`,
    effect: approve
      ? 'The action is tried once, on the evidence it was asked about; probation then tells whether it helped.'
      : 'The agent stays isolated until somebody heals or releases it.',
    verb: approve ? 'Approve' : 'Reject',
    danger: !approve,
    needsReason: !approve,
    run: async (reason) => {
      await acts.attempt(`${answer} ${words} for ${approval.agent_id}`, async () => {
        const path = `v1/immune/approvals/${encodeURIComponent(approval.approval_id)}/${answer}`
        await send('POST', path, { reason, actor: 'dashboard' })
        return `${approve ? 'Approved' : 'Rejected'}: ${words} for ${approval.agent_id}`
      })
    },
  })
}
