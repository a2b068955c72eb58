// What each agent spent today and how quick its last calls were; read in parts, and again now and then.

import { get } from './api'

export interface Today {
  agent_id: string
  calls: number
  cost_usd: number
  latency_ms: (number | null)[]
}

const AGAIN_MS = 10_000
const PAGES_MAX = 8 // more agents than anybody compares by their lines

class Todays {
  byAgent = $state.raw<ReadonlyMap<string, Today>>(new Map())
  since = $state('')
  #users = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  hold(): () => void {
    if (this.#users++ === 0) void this.#read()
    return () => {
      if (--this.#users === 0) clearTimeout(this.#timer)
    }
  }

  async #read(): Promise<void> {
    const found = new Map<string, Today>()
    let cursor: string | null = null
    try {
      for (let pages = 0; pages < PAGES_MAX; pages++) {
        const page: { since: string; agents: Today[]; next_cursor: string | null } = await get('v1/today', { cursor, limit: 500 })
        for (const one of page.agents) found.set(one.agent_id, one)
        this.since = page.since
        cursor = page.next_cursor
        if (!cursor) break
      }
      this.byAgent = found
    } catch {
      // The rows say the rest without it.
    }
    if (this.#users > 0) this.#timer = setTimeout(() => void this.#read(), AGAIN_MS)
  }
}

export const today = new Todays()
