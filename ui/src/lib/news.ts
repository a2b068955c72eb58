// An event in words.

import { words } from './format'
import type { FeedEvent } from './types'

export function told(event: FeedEvent): string {
  const text = (name: string) => words(String(event[name] ?? ''))
  switch (event.kind) {
    case 'phase':
      return `${text('source')} → ${text('phase')}: ${text('cause')}`
    case 'approval':
      return event.status === 'pending' ? `waits for an answer: ${text('action')}` : `${text('action')} was ${text('status')}`
    case 'presence':
      return text('event')
    case 'deliverable':
      return `ended a turn: ${text('status')}`
    case 'alert':
      return `alert: ${text('reason')}`
    case 'policy':
      return event.dropped ? `policy removed: ${String(event.dropped)}` : `policy or budget changed: ${text('target')}`
    case 'budget':
      return `budget nearly spent: ${text('holder')}`
    case 'run':
      return `is ${text('status')}${event.reason ? `: ${text('reason')}` : ''}`
    case 'memory':
      return `${text('what')} ${text('action') || text('cause')}${event.reason ? `: ${text('reason')}` : ''}`
    default:
      return event.kind
  }
}
