// What an act was done to, in words and with a link. The log names it as the command line does (`agent/ann`); entries
// of older versions name the route that was asked.

import { href } from './route.svelte'

export interface Named {
  words: string
  link: string | null
}

// The noun of each collection, and the page that shows one of it.
const NOUNS: Record<string, [noun: string, page: string | null]> = {
  agents: ['', 'agents'],
  runs: ['run', 'runs'],
  turns: ['turn', 'turns'],
  approvals: ['question', null],
  incidents: ['incident', 'incidents'],
  policies: ['policy', null],
  keys: ['key', null],
  webhooks: ['webhook', null],
  operations: ['operation', null],
}

// The parts of a name as a route would have them; an id may have slashes of its own.
function unfolded(object: string): string[] | null {
  const [noun = '', ...parts] = object.split('/')
  const [first = '', ...further] = parts
  if (noun === 'task' && further.length) return ['runs', first, 'tasks', further.join('/')]
  if (noun === 'budget' && further.length) return ['budgets', first, further.join('/')]
  const collection = noun === 'policy' ? 'policies' : `${noun}s`
  return Object.hasOwn(NOUNS, collection) && parts.length ? [collection, parts.join('/')] : null
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export function named(object: string): Named {
  const [path = ''] = object.split('?')
  const parts = path.split('/').filter(Boolean).map(decoded)
  const rest = unfolded(object) ?? (parts[0] === 'v1' || parts[0] === 'api' ? parts.slice(1) : parts)
  if (rest[0] === 'immune') rest.shift()
  const [kind = '', id, more] = rest
  if (kind === 'budgets' && id && more) return { words: `budget of ${id === 'run' ? 'run ' : ''}${more}`, link: href(id === 'run' ? 'runs' : 'agents', more) }
  if (kind === 'red-button') return { words: 'red button', link: href('runs') }
  const known = Object.hasOwn(NOUNS, kind) ? NOUNS[kind] : undefined
  if (!known) return { words: rest.join(' ') || object, link: null }
  const [noun, page] = known
  if (!id) return { words: kind, link: null }
  if (kind === 'approvals') return { words: `${noun} ${id}`, link: href('approvals', null, { id }) }
  if (kind === 'policies') return { words: `${noun} ${id}`, link: href('policies', null, { id }) }
  const task = kind === 'runs' && more === 'tasks' && rest[3] ? `, task ${rest[3]}` : ''
  return { words: `${noun} ${id}${task}`.trim(), link: page ? href(page, id) : null }
}

interface Entry {
  seq: number
  outcome: string
  of_seq: number | null
}

// An act is written down before it is done and again when it is; of the two the later says all.
export function settled<T extends Entry>(acts: T[]): T[] {
  const answered = new Set(acts.map((act) => act.of_seq))
  return acts.filter((act) => act.outcome !== 'requested' || !answered.has(act.seq))
}
