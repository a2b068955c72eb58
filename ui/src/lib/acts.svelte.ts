// What an operator does: asked for in two steps, then followed until it is in effect.

import { Problem, send } from './api'
import { plural, words } from './format'
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
  // How far it may be meant to hold; the first is meant where nothing is said.
  holds?: string[]
  // What it would reach, asked of the server without doing it.
  preview?: () => Promise<string>
  run: (reason: string, held: number) => Promise<void>
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

type Verb = 'quarantine' | 'kill' | 'release' | 'heal' | 'cordon' | 'drain' | 'uncordon'

const VERBS: Record<Verb, { effect: string; danger: boolean; settled: Phase[] }> = {
  cordon: { effect: 'gets no new turns; the one under way goes on, messages wait.', danger: false, settled: [] },
  drain: { effect: 'gets no new turns, and ends what it has in hand; messages wait.', danger: false, settled: [] },
  uncordon: { effect: 'gets turns again. What the immune system holds stays held.', danger: false, settled: [] },
  quarantine: {
    effect: 'takes no new turns, ends or gives back what it works on, and its model calls are refused. Its messages wait and are not lost.',
    danger: true,
    settled: ['quarantined'],
  },
  kill: {
    effect: 'is isolated at once and ended, wherever it runs. It stays so until somebody releases it; its messages wait.',
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

interface Reach {
  agents: { active_turn_id: string | null; queued: number; open_calls: number }[]
  undo: string
}

const PREVIEWED_MAX = 20

async function reach(verb: Verb, agents: string[]): Promise<string> {
  const found = await Promise.all(
    agents.slice(0, PREVIEWED_MAX).map((agent) =>
      send<Reach>('POST', `v1/agents/${encodeURIComponent(agent)}/${verb}`, { reason: 'a look before', actor: 'dashboard' }, { dry_run: true }),
    ),
  )
  const reached = found.flatMap((one) => one?.agents ?? [])
  const turns = reached.filter((one) => one.active_turn_id).length
  const queued = reached.reduce((sum, one) => sum + one.queued, 0)
  const calls = reached.reduce((sum, one) => sum + one.open_calls, 0)
  const of = agents.length > PREVIEWED_MAX ? `, of the first ${PREVIEWED_MAX}` : ''
  return `It reaches ${plural(agents.length, 'agent')}: ${plural(turns, 'turn')} under way, ${plural(queued, 'message')} that will wait, ${plural(calls, 'open model call')}${of}. Undone by: ${found[0]?.undo ?? 'nothing'}`
}

interface Acted {
  phase?: Phase
  cordoned?: boolean
  receipt?: { effect: string } | null
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
    ...(verb === 'kill' ? { word: 'kill' } : {}),
    ...(['quarantine', 'cordon', 'drain'].includes(verb) ? { preview: () => reach(verb, agents) } : {}),
    run: async (reason) => {
      await acts.attempt(`${verb} ${who}`, async () => {
        const failed: string[] = []
        const settledOf: boolean[] = []
        let verified = 0
        let done: Acted | null = null
        for (const agent of agents) {
          try {
            const path = `v1/agents/${encodeURIComponent(agent)}/${verb}`
            done = await send<Acted>('POST', path, { reason, actor: 'dashboard' })
            verified += done?.receipt?.effect === 'enforced' ? 1 : 0
            settledOf.push(done?.cordoned !== undefined || (done?.phase !== undefined && settled.includes(done.phase)))
          } catch (error) {
            if (agents.length === 1) throw error
            failed.push(`${agent}: ${error instanceof Error ? error.message : String(error)}`)
          }
        }
        if (failed.length === agents.length) throw new Error(failed[0])
        if (failed.length) return `${verb}: ${agents.length - failed.length} done, ${failed.length} refused (${failed[0]})`
        if (agents.length > 1) {
          const inEffect = settledOf.filter(Boolean).length
          const proof = verified ? `, ${verified} verified` : ''
          return inEffect === agents.length ? `In effect: ${verb} ${who}${proof}` : `Requested: ${verb} ${who}; in effect for ${inEffect} so far${proof}`
        }
        if (done?.cordoned !== undefined) return `In effect: ${agents[0]} ${done.cordoned ? 'gets no new turns' : 'gets turns again'}`
        const proof = done?.receipt ? ` (${done.receipt.effect === 'enforced' ? 'verified' : done.receipt.effect})` : ''
        if (done?.phase && settled.includes(done.phase)) return `In effect${proof}: ${agents[0]} is ${done.phase}`
        follow(agents[0] ?? '', settled)
        return `${agents[0]} is ${done?.phase}; in effect once it is ${settled[0]}`
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

const HOURS = [0, 1, 8, 24]

export function askApproval(answer: 'approve' | 'reject', approval: { approval_id: string; agent_id: string; action: string }): void {
  const action = words(approval.action)
  const approve = answer === 'approve'
  acts.ask({
    title: approve ? `Approve “${action}” for ${approval.agent_id}?` : `Reject “${action}” for ${approval.agent_id}?`,
    effect: approve
      ? 'The action is tried once, on the evidence it was asked about; probation then tells whether it helped.'
      : 'The agent stays isolated until somebody heals or releases it.',
    verb: approve ? 'Approve' : 'Reject',
    danger: !approve,
    needsReason: !approve,
    ...(approve ? { holds: HOURS.map((one) => (one ? `for ${one} h` : 'once')) } : {}),
    run: async (reason, held) => {
      const hours = approve ? (HOURS[held] ?? 0) : 0
      await acts.attempt(`${answer} ${action} for ${approval.agent_id}`, async () => {
        const path = `v1/immune/approvals/${encodeURIComponent(approval.approval_id)}/${answer}`
        await send('POST', path, { reason, actor: 'dashboard', ...(hours ? { hours } : {}) })
        return `${approve ? 'Approved' : 'Rejected'}: ${action} for ${approval.agent_id}${hours ? `, and for ${hours} h whenever the same is found` : ''}`
      })
    },
  })
}

export const CAUSES = ['correct', 'false_positive', 'wrong_diagnosis', 'provider_outage']

export function askFeedback(agent: string, cause: string): void {
  acts.ask({
    title: `Say that the last diagnosis was: ${words(cause)}?`,
    effect: 'Later diagnoses of the same kind heed it; it can be withdrawn.',
    verb: 'Say so',
    run: async (reason) => {
      await acts.attempt('feedback', async () => {
        await send('POST', 'api/feedback', { agent_id: agent, actual_cause: cause, notes: reason, author: 'dashboard' })
      })
    },
  })
}

type Rung = { diagnosis: string; action: string }

// Ask to veto a remedy; or, where there is a veto, to lift it for those it was given for.
export function askVeto(agent: string, { diagnosis, action }: Rung, given?: { agent_id: string | null }): void {
  const meant = `${words(action)} against ${words(diagnosis)}`
  acts.ask({
    title: given ? `Allow ${meant} again?` : `Never try ${meant}?`,
    effect: given
      ? `The ladder has it again, for ${given.agent_id ?? 'every agent'}.`
      : 'The ladder passes it over, wherever it is climbed. With nothing left to try, an agent stays isolated until somebody heals or releases it.',
    verb: given ? 'Lift veto' : 'Veto',
    danger: !given,
    needsReason: true,
    ...(given ? {} : { holds: [`for ${agent}`, 'for every agent'] }),
    run: async (reason, held) => {
      const whom = given ? given.agent_id : held ? null : agent
      await acts.attempt(`${given ? 'lift the veto on' : 'veto'} ${meant}`, async () => {
        await send('POST', `v1/immune/memory/${given ? 'lift' : 'veto'}`, { diagnosis, action, agent_id: whom, reason, actor: 'dashboard' })
      })
    },
  })
}

export function askRedButton(then: () => void = () => undefined): void {
  acts.ask({
    title: 'Press the red button?',
    effect: 'Every run of every project is killed: no task starts, running turns are stopped, model calls of runs are refused. None begins until the button is lifted.',
    verb: 'Kill every run',
    danger: true,
    needsReason: true,
    word: 'kill',
    run: async (reason) => {
      await acts.attempt('red button', async () => {
        const found = await send<{ killed: string[] }>('POST', 'v1/red-button', { reason, actor: 'dashboard' })
        then()
        return `In effect: ${plural(found?.killed.length ?? 0, 'run')} killed, none may begin`
      })
    },
  })
}
