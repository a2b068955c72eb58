// One headline for lists; the first that fits wins.

import type { AgentRow, Head, Phase } from './types'

export type Tone = 'bad' | 'warn' | 'busy' | 'good' | 'calm'

export interface Headline {
  word: string
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

const ISOLATED: Phase[] = ['exhausted', 'quarantined', 'healing', 'draining']

export function headline(row: Pick<AgentRow, 'presence' | 'phase'>, head: Head | null, asked: boolean): Headline {
  if (row.presence === 'dead' || row.presence === 'gone') return { word: row.presence, tone: 'bad', rank: 0 }
  const place = ISOLATED.indexOf(row.phase)
  if (place >= 0 && !(asked && row.phase === 'quarantined')) {
    return { word: row.phase, tone: PHASES[row.phase].tone, rank: 1 + place }
  }
  if (asked) return { word: 'approval waiting', tone: 'warn', rank: 5 }
  if (row.phase === 'suspected') return { word: 'suspected', tone: 'warn', rank: 6 }
  if (row.presence === 'stale') return { word: 'stale', tone: 'warn', rank: 7 }
  if (row.phase === 'probation') return { word: 'probation', tone: 'busy', rank: 8 }
  if (head && head.gate !== 'open') return { word: 'paused', tone: 'warn', rank: 9 }
  // Nothing is shown as running without a live lease.
  if (head?.status === 'running' && head.worker_id) return { word: 'running', tone: 'busy', rank: 10 }
  if (head?.status === 'suspended') {
    const waits = head.waiting_tool_count
    return { word: `waiting for ${waits === 1 ? 'a tool' : `${waits} tools`}`, tone: 'busy', rank: 11 }
  }
  if (head?.status === 'dispatched') return { word: 'dispatched', tone: 'busy', rank: 12 }
  return { word: 'idle', tone: 'calm', rank: 13 }
}

export function activity(head: Head | null): string {
  if (head?.status === 'running') return head.worker_id ? 'thinking' : ''
  if (head?.status === 'suspended') return head.waiting_tool_count === 1 ? 'awaiting a tool' : `awaiting ${head.waiting_tool_count} tools`
  return head?.status === 'dispatched' ? 'about to begin' : ''
}
