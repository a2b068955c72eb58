// How a run's tasks hang together and when each was under way.

import type { Tone } from './headline'
import type { ModelCall, Task } from './types'

const TONES: Record<string, Tone> = {
  completed: 'good',
  succeeded: 'good',
  failed: 'bad',
  killed: 'bad',
  cancelled: 'bad',
  applying: 'busy',
  running: 'busy',
  paused: 'warn',
  held: 'warn',
  stopped: 'bad',
}

export function tone(status: string): Tone {
  return TONES[status] ?? 'calm'
}

export interface Bar {
  left: number
  width: number
}

// Where each task lies between the first start and the last end, in shares of the whole.
export function gantt(tasks: Task[], now: number): Map<string, Bar> {
  const begun = tasks.filter((task) => task.started_at)
  const first = Math.min(...begun.map((task) => Date.parse(task.started_at ?? '')))
  const last = Math.max(...begun.map((task) => (task.ended_at ? Date.parse(task.ended_at) : now)), first + 1)
  return new Map(
    begun.map((task) => {
      const from = Date.parse(task.started_at ?? '')
      const to = task.ended_at ? Date.parse(task.ended_at) : now
      return [task.name, { left: (from - first) / (last - first), width: Math.max(0.005, (to - from) / (last - first)) }]
    }),
  )
}

export interface Outlay {
  calls: number
  tokens: number
  usd: number
}

// What each task spent: a call belongs to the task that its agent was working on when it was made.
export function outlays(tasks: Task[], calls: ModelCall[], now: number): Map<string, Outlay> {
  const found = new Map<string, Outlay>()
  for (const call of calls) {
    const at = Date.parse(call.started_at)
    const task = tasks.find(
      (one) => one.agent_id === call.agent_id && one.started_at !== null && Date.parse(one.started_at) <= at && at <= (one.ended_at ? Date.parse(one.ended_at) : now),
    )
    if (!task) continue
    const before = found.get(task.name) ?? { calls: 0, tokens: 0, usd: 0 }
    found.set(task.name, {
      calls: before.calls + 1,
      tokens: before.tokens + call.tokens_in + call.tokens_out,
      usd: before.usd + (call.cost_usd ?? 0),
    })
  }
  return found
}

export interface Node {
  task: Task
  x: number
  y: number
}

// Tasks in columns: each stands right of all it comes after. What is not a graph ends where it would go round.
export function layers(tasks: Task[]): Node[] {
  const byName = new Map(tasks.map((task) => [task.name, task]))
  const depth = new Map<string, number>()
  const under = new Set<string>()
  const depthOf = (name: string): number => {
    const known = depth.get(name)
    if (known !== undefined) return known
    const task = byName.get(name)
    if (!task || under.has(name)) return -1
    under.add(name)
    const found = 1 + Math.max(-1, ...task.after.map(depthOf))
    under.delete(name)
    depth.set(name, found)
    return found
  }
  const rows = new Map<number, number>()
  return tasks.map((task) => {
    const x = depthOf(task.name)
    const y = rows.get(x) ?? 0
    rows.set(x, y + 1)
    return { task, x, y }
  })
}
