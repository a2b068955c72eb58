// A long list that the server gives page by page: the next page is read when the end comes near.

import { onDestroy } from 'svelte'
import { Problem } from './api'
import { live } from './live.svelte'
import type { EventKind, FeedEvent } from './types'

export interface Page<T> {
  items: T[]
  next: string | number | null
}

export class Paged<T> {
  items = $state.raw<T[]>([])
  problem = $state.raw<Problem | null>(null)
  loading = $state(false)
  ready = $state(false)
  next = $state.raw<string | number | null>(null)
  #fetch: (cursor: string | number | null) => Promise<Page<T>>
  #key: (item: T) => string
  #grows: 'top' | 'end'
  #round = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(fetch: (cursor: string | number | null) => Promise<Page<T>>, key: (item: T) => string, grows: 'top' | 'end' = 'top') {
    this.#fetch = fetch
    this.#key = key
    this.#grows = grows
  }

  async restart(): Promise<void> {
    this.#round += 1
    this.items = []
    this.ready = false
    this.next = null
    await this.#read(null)
  }

  more = (): void => {
    if (!this.loading && this.next !== null) void this.#read(this.next)
  }

  // What is new comes in on top, or at the end where the list is oldest first; what was read stays where it is.
  refresh(): void {
    this.#timer ??= setTimeout(async () => {
      this.#timer = undefined
      if (this.#grows === 'end') {
        const last = this.items.at(-1)
        if (!this.loading && this.next === null && this.ready) await this.#read(last ? this.#key(last) : null)
        return
      }
      const round = this.#round
      try {
        const page = await this.#fetch(null)
        if (round !== this.#round) return
        const fresh = new Map(page.items.map((item) => [this.#key(item), item]))
        const kept = this.items.map((item) => fresh.get(this.#key(item)) ?? item)
        const known = new Set(kept.map(this.#key))
        this.items = [...page.items.filter((item) => !known.has(this.#key(item))), ...kept]
        this.problem = null
      } catch (error) {
        if (error instanceof Problem) this.problem = error
      }
    }, 400)
  }

  stop(): void {
    this.#round += 1
    clearTimeout(this.#timer)
  }

  async #read(cursor: string | number | null): Promise<void> {
    const round = this.#round
    this.loading = true
    try {
      const page = await this.#fetch(cursor)
      if (round !== this.#round) return
      const known = new Set(this.items.map(this.#key))
      this.items = [...this.items, ...page.items.filter((item) => !known.has(this.#key(item)))]
      this.next = page.next
      this.problem = null
      this.ready = true
    } catch (error) {
      if (round !== this.#round) return
      this.next = null
      this.problem = error instanceof Problem ? error : new Problem(0, 'unknown', String(error))
    } finally {
      if (round === this.#round) this.loading = false
    }
  }
}

export function paged<T>(
  fetch: (cursor: string | number | null) => Promise<Page<T>>,
  key: (item: T) => string,
  depends: () => unknown,
  kinds: EventKind[] = [],
  concerns: (event: FeedEvent) => boolean = () => true,
  grows: 'top' | 'end' = 'top',
): Paged<T> {
  const list = new Paged(fetch, key, grows)
  $effect(() => {
    depends()
    void list.restart()
  })
  const off = live.on(
    kinds,
    (event) => {
      if (concerns(event)) list.refresh()
    },
    () => list.refresh(),
  )
  onDestroy(() => {
    off()
    list.stop()
  })
  return list
}
