// An entry of a run's ledger in words; whoever wants all of it opens the entry.

import { brief, millis, plural, usd, words } from './format'
import type { LedgerEntry } from './types'

// Payloads are whatever was recorded: what is not as it is expected to be is shown as it is.
type Payload = Record<string, any>

const read = (json: string): Payload => JSON.parse(json)

const step = (told: Payload) => `${told.name}: ${brief(read(told.asked.told_json).args, 60)} → ${brief(read(told.outcome_json).ok ?? told.outcome_json)}`

const TOLD: Record<string, (told: Payload) => string> = {
  'run.created': (told) => `${told.actor} wants: ${told.config.goal}`,
  'plan.made': (told) => `${told.by} planned ${plural(told.tasks.length, 'task')}`,
  'run.moved': (told) => `${told.from} → ${told.to} by ${told.actor}: ${told.reason}`,
  'run.changed': (told) => [words(told.change), told.task, Array.isArray(told.tasks) && told.tasks.join(' '), told.actor && `by ${told.actor}`, told.reason].filter(Boolean).join(', '),
  'task.ended': (told) => `${told.task} ${told.status} at ${told.agent_id}: ${brief(told.error ?? told.result)}`,
  'turn.ended': (told) =>
    told.task?.status
      ? `${told.task.name} ${told.task.status} at ${told.agent_id}: ${told.result_json}`
      : `${told.agent_id} ended with ${told.status}: ${told.result_json}`,
  'model.call': (told) => {
    const asked = read(told.asked.told_json)
    const answer = read(told.outcome_json)
    return `${asked.model}: ${brief(asked.messages.at(-1).content, 60)} → ${brief(answer.ok?.message.content ?? answer.ok ?? answer)}`
  },
  'tool.result': step,
  step,
  card: (told) => `${told.type}: ${told.content_json}`,
  'gateway.call': (told) => `${told.agent_id} asked ${told.model}: ${words(told.outcome)} in ${millis(told.latency_ms)} for ${usd(told.cost_micros / 1e6)}`,
}

export function told({ kind, payload }: LedgerEntry): string {
  try {
    return brief(TOLD[kind]!(payload as Payload), 240)
  } catch {
    return brief(payload, 240)
  }
}
