// The fleet's rows as the filter and the columns see them.

import type { Fields } from './filter'
import type { Headline } from './headline'
import type { Today } from './today.svelte'
import type { AgentRow, Head } from './types'

export interface FleetRow {
  row: AgentRow
  head: Head | null
  headline: Headline
  today: Today | null
}

export const SEARCHED = ['name', 'type', 'tag', 'host', 'action']
export const FIELDS = [
  'agent', 'name', 'type', 'tag', 'host', 'version', 'phase', 'presence', 'status', 'says', 'turn', 'queue', 'errors', 'cost', 'calls', 'ms', 'memory',
  'items', 'interval', 'seen', 'heard', 'up', 'started', 'registered', 'action',
] // prettier-ignore

export function fieldsOf({ row, head, headline, today }: FleetRow, now: number): Fields {
  return {
    agent: row.agent_id,
    name: row.agent_id,
    type: row.agent_type,
    tag: row.tags,
    host: row.hostname,
    version: row.version,
    phase: row.phase,
    presence: row.presence === 'alive' ? ['live', 'alive'] : row.presence,
    status: [headline.word, row.status],
    says: row.reported_status,
    turn: head?.status ?? 'idle',
    queue: head?.queued ?? row.queue_depth,
    errors: row.error_count,
    cost: today?.cost_usd ?? 0,
    calls: today?.calls ?? 0,
    ms: row.processing_time_avg_ms,
    interval: row.push_interval_seconds,
    memory: row.memory_mb,
    items: row.items_processed,
    seen: (now - Date.parse(row.last_seen_at)) / 1000,
    up: row.uptime_seconds,
    heard: when(row.last_seen_at, now),
    started: when(row.started_at, now),
    registered: when(row.registered_at, now),
    action: row.last_action,
  }
}

// Times are seconds from now, as the grammar writes them: `started>-1h`.
function when(instant: string | null | undefined, now: number): number | null {
  return instant ? (Date.parse(instant) - now) / 1000 : null
}

type Key = (one: FleetRow) => string | number
const TURNS = ['running', 'suspended', 'dispatched', 'idle']

const KEYS: Record<string, Key> = {
  name: (one) => one.row.agent_id,
  headline: (one) => one.headline.rank,
  phase: (one) => one.row.phase,
  turn: (one) => TURNS.indexOf(one.head?.status ?? 'idle'),
  presence: (one) => one.row.presence,
  type: (one) => one.row.agent_type,
  tags: (one) => one.row.tags.join(' '),
  queue: (one) => -(one.head?.queued ?? one.row.queue_depth ?? -1),
  errors: (one) => -(one.row.error_count ?? -1),
  ms: (one) => -(one.row.processing_time_avg_ms ?? -1),
  cost: (one) => -(one.today?.cost_usd ?? 0),
  host: (one) => one.row.hostname ?? '',
  version: (one) => one.row.version ?? '',
  seen: (one) => -Date.parse(one.row.last_seen_at),
}

// Ties are in order of names, so that rows do not jump about as they change.
export function ordered(rows: FleetRow[], sort: string): FleetRow[] {
  const down = sort.startsWith('-')
  const key = KEYS[down ? sort.slice(1) : sort] ?? KEYS.headline
  if (!key) return rows
  const keyed = rows.map((one) => [key(one), one] as const)
  keyed.sort(([a, one], [b, two]) => {
    const order = a < b ? -1 : a > b ? 1 : 0
    if (order) return down ? -order : order
    return one.row.agent_id < two.row.agent_id ? -1 : 1
  })
  return keyed.map(([, one]) => one)
}

// A line of the list: the head of a group, or an agent, which stands in a group for each of its tags.
export type Line = { group: string; size: number } | (FleetRow & { within?: string })

export function grouped(rows: FleetRow[], by: string): Line[] {
  if (!by) return rows
  const groups = new Map<string, FleetRow[]>()
  for (const one of rows) {
    const names = by === 'tag' ? (one.row.tags.length ? one.row.tags : ['no tag']) : [one.row.agent_type]
    for (const name of names) {
      const group = groups.get(name)
      if (group) group.push(one)
      else groups.set(name, [one])
    }
  }
  return [...groups]
    .sort(([a], [b]) => a.localeCompare(b))
    .flatMap(([name, members]) => [{ group: name, size: members.length }, ...members.map((one) => ({ ...one, within: name }))])
}

export function keyOf(line: Line): string {
  return 'group' in line ? `group ${line.group}` : line.within === undefined ? line.row.agent_id : `${line.row.agent_id} in ${line.within}`
}
