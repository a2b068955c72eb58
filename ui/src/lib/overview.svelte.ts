// How everything stands, shared by the shell and the first page.

import { get, type Problem } from './api'
import { live } from './live.svelte'
import { Remote } from './remote.svelte'
import type { Overview } from './types'

class OverviewFeed {
  #remote = new Remote<Overview>((signal) => get('v1/overview', {}, signal))

  get data(): Overview | null {
    return this.#remote.data
  }

  get problem(): Problem | null {
    return this.#remote.problem
  }

  start(): () => void {
    void this.#remote.load()
    const refresh = () => this.#remote.refresh()
    const off = live.on(['phase', 'approval', 'presence', 'run'], refresh, refresh)
    const ticking = setInterval(refresh, 10_000)
    return () => {
      off()
      clearInterval(ticking)
      this.#remote.stop()
    }
  }
}

export const overview = new OverviewFeed()
