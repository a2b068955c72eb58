// What runs are for, by their ids: a goal says more than a number.

import { get } from './api'
import { brief } from './format'
import { remote } from './remote.svelte'
import type { Run } from './types'

const OVER = ['completed', 'failed', 'killed']

export interface Goals {
  of: (id: string) => string
  over: (id: string) => boolean
}

export function goals(): Goals {
  const runs = remote<{ runs: Run[] }>((signal) => get('v1/runs', { limit: 200 }, signal), { kinds: ['run'] })
  const known = $derived(new Map((runs.data?.runs ?? []).map((run) => [run.run_id, run])))
  return {
    of: (id) => brief(known.get(id)?.goal ?? (runs.data ? id : '…'), 80),
    over: (id) => OVER.includes(known.get(id)?.status ?? ''),
  }
}
