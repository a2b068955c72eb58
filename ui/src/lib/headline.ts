// One headline for lists: of all that holds, what comes first in an order that the server and the commands share.

import ORDER from './headlines.json'
import type { AgentRow, Head, Phase } from './types'

export type Tone = 'bad' | 'warn' | 'busy' | 'good' | 'calm'

const ASKED = 'approval waiting'

export interface Headline {
  word: string
  note: string
  tone: Tone
  rank: number
}

export const PHASES: Record<Phase, { icon: string; tone: Tone; why: string }> = {
  exhausted: { icon: '✖', tone: 'bad', why: 'Every remedy was tried, or an operator refused: it waits for one.' },
  quarantined: { icon: '■', tone: 'bad', why: 'Isolated: its messages wait, its model calls are refused.' },
  draining: { icon: '▼', tone: 'warn', why: 'No new work; what is in flight may end.' },
  healing: { icon: '✚', tone: 'warn', why: 'A remedy is being applied behind closed gates.' },
  suspected: { icon: '◐', tone: 'warn', why: 'An anomaly was seen; one tick proves nothing.' },
  probation: { icon: '◇', tone: 'busy', why: 'Released and watched: fresh vitals will tell.' },
  initializing: { icon: '○', tone: 'calm', why: 'Too few samples to know what is normal.' },
  healthy: { icon: '●', tone: 'good', why: 'Its vitals are within its own normal.' },
}

const TONES: Record<string, Tone> = { dead: 'bad', gone: 'bad', [ASKED]: 'warn', stale: 'warn', paused: 'warn', running: 'busy', suspended: 'busy', dispatched: 'busy' }

export function headline(row: Pick<AgentRow, 'presence' | 'phase' | 'reported_status'>, head: Head | null, asked: boolean): Headline {
  const held = [row.presence, row.phase, work(head) || (row.reported_status ? 'idle' : 'registered'), asked && ASKED]
  const rank = ORDER.findIndex((word) => held.includes(word))
  const word = ORDER[rank] ?? ''
  const note = asked && word !== ASKED && word in PHASES ? ASKED : word === 'suspended' && head ? `waiting for ${tools(head)}` : ''
  return { word, note, rank, tone: TONES[word] ?? PHASES[word as Phase]?.tone ?? 'calm' }
}

// Nothing is shown as running without a live lease.
function work(head: Head | null): string {
  if (head && head.gate !== 'open') return 'paused'
  return head && head.status !== 'idle' && (head.status !== 'running' || head.worker_id) ? head.status : ''
}

const tools = (head: Head) => (head.waiting_tool_count === 1 ? 'a tool' : `${head.waiting_tool_count} tools`)

export function activity(head: Head | null): string {
  if (head?.status === 'running') return head.worker_id ? 'thinking' : ''
  if (head?.status === 'suspended') return `awaiting ${tools(head)}`
  return head?.status === 'dispatched' ? 'about to begin' : ''
}
