// An event in words.

import { words } from './format'
import type { FeedEvent } from './types'

export function told(event: FeedEvent): string {
  // What a machine calls things is told in words, what somebody wrote or named stays as it is.
  const said = (name: string) => String(event[name] ?? '')
  const text = (name: string) => words(said(name))
  switch (event.kind) {
    case 'phase':
      return `${text('source')} → ${text('phase')}: ${said('cause')}`
    case 'approval':
      return event.status === 'pending' ? `waits for an answer: ${text('action')}` : `${text('action')} was ${text('status')}`
    case 'presence':
      return text('event')
    case 'deliverable':
      return `ended a turn: ${text('status')}`
    case 'alert':
      return `alert: ${said('reason')}`
    case 'policy':
      return event.dropped ? `policy removed: ${said('dropped')}` : `policy or budget changed: ${said('target')}`
    case 'budget':
      return `budget nearly spent: ${said('holder')}`
    case 'run':
      return `is ${text('status')}${event.reason ? `: ${said('reason')}` : ''}`
    case 'memory':
      return `${text('what')} ${text('action') || text('cause')}${event.reason ? `: ${said('reason')}` : ''}`
    default:
      return event.kind
  }
}
