// What runs are for, by their ids: a goal says more than a number.

import { get } from './api'
import { brief } from './format'
import { remote } from './remote.svelte'
import type { Run } from './types'

export function goals(): { of: (id: string) => string } {
  const runs = remote<{ runs: Run[] }>((signal) => get('v1/runs', { limit: 200 }, signal), { kinds: ['run'] })
  const known = $derived(new Map((runs.data?.runs ?? []).map((run) => [run.run_id, run.goal])))
  return { of: (id) => brief(known.get(id) ?? id, 80) }
}
