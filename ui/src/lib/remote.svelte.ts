// Something read from the server and kept current: read again when an event says that it changed.

import { onDestroy } from 'svelte'
import { Problem } from './api'
import { live } from './live.svelte'
import type { EventKind, FeedEvent } from './types'

const GAP_MS = 400

// What is asked for; or what is known without asking.
type Fetch<T> = (signal: AbortSignal) => Promise<T> | T

export interface RemoteOptions {
  kinds?: EventKind[]
  concerns?: (event: FeedEvent) => boolean
  everySeconds?: number
}

export class Remote<T> {
  data = $state.raw<T | null>(null)
  problem = $state.raw<Problem | null>(null)
  loading = $state(true)
  #fetch: Fetch<T>
  #abort: AbortController | null = null
  #timer: ReturnType<typeof setTimeout> | undefined
  #readAt = 0

  constructor(fetch: Fetch<T>) {
    this.#fetch = fetch
  }

  get absent(): boolean {
    return this.problem?.absent ?? false
  }

  async load(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#abort?.abort()
    const abort = (this.#abort = new AbortController())
    this.#readAt = Date.now()
    this.loading = true
    try {
      const data = await this.#fetch(abort.signal)
      if (abort.signal.aborted) return
      this.data = data
      this.problem = null
    } catch (error) {
      if (abort.signal.aborted) return
      this.problem = error instanceof Problem ? error : new Problem(0, 'unknown', String(error))
    }
    this.loading = false
  }

  // Soon, and not more often than every so often.
  refresh(): void {
    if (this.#timer !== undefined) return
    const wait = Math.max(60, this.#readAt + GAP_MS - Date.now())
    this.#timer = setTimeout(() => void this.load(), wait)
  }

  forget(): void {
    this.data = null
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#abort?.abort()
  }
}

// For a component: `fetch` is run again when what it reads changes, when an event concerns it, and now and then.
export function remote<T>(fetch: Fetch<T>, options: RemoteOptions = {}): Remote<T> {
  const found = new Remote(fetch)
  $effect(() => {
    found.forget()
    void found.load()
  })
  const { kinds = [], concerns = () => true } = options
  const off = live.on(
    kinds,
    (event) => {
      if (concerns(event)) found.refresh()
    },
    () => found.refresh(),
  )
  const ticking = setInterval(() => {
    if (document.visibilityState === 'visible') found.refresh()
  }, (options.everySeconds ?? 30) * 1000)
  onDestroy(() => {
    off()
    clearInterval(ticking)
    found.stop()
  })
  return found
}
