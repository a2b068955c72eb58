// The one sentence at the top of Now.

import { plural, seconds, usd, whole } from './format'
import type { Overview } from './types'

// Traffic is counted by a process for an hour at most: one that was begun since knows of less.
export function span(now: Overview): string {
  const known = (Date.parse(now.at) - Date.parse(now.traffic_since)) / 1000
  return known < 3570 ? `in the last ${seconds(known)}` : 'in the last hour'
}

export function sentence(now: Overview, incidents: number, tasks = 0, still = 0): string {
  if (now.agents === 0) return 'No agent is registered yet.'
  const phases = now.phases
  const isolated = (phases.draining ?? 0) + (phases.quarantined ?? 0) + (phases.healing ?? 0)
  const parts: string[] = []
  const healthy = phases.healthy ?? 0
  if (healthy === now.agents) parts.push(`${now.agents === 1 ? 'The agent is' : `All ${plural(now.agents, 'agent')} are`} healthy`)
  else parts.push(`${whole(healthy)} of ${plural(now.agents, 'agent')} healthy`)
  if (phases.initializing) parts.push(`${whole(phases.initializing)} still learning`)
  if (phases.suspected) parts.push(`${whole(phases.suspected)} suspected`)
  if (isolated) parts.push(`${whole(isolated)} isolated`)
  if (phases.probation) parts.push(`${whole(phases.probation)} on probation`)
  if (phases.exhausted) parts.push(`${whole(phases.exhausted)} out of remedies`)
  if (now.presence.dead) parts.push(`${whole(now.presence.dead)} dead`)
  const asked = now.approvals_pending + tasks
  if (asked) parts.push(`${plural(asked, 'approval')} waiting`)
  if (incidents) parts.push(plural(incidents, 'open incident'))
  if (still) parts.push(`${plural(still, 'run')} ${still === 1 ? 'stands' : 'stand'} still`)
  parts.push(`${usd(now.traffic.cost_usd)} ${span(now)}`)
  return `${parts.join(', ')}.`
}
