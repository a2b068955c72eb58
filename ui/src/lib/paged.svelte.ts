// A long list that the server gives page by page: the next page is read when the end comes near.

import { onDestroy } from 'svelte'
import { Problem } from './api'
import { live } from './live.svelte'
import type { EventKind, FeedEvent } from './types'

const NEWS_PAGES_MAX = 10 // who was away for longer begins anew
const AGAIN_MS = 3000 // a server that cannot be reached, or fails, is asked once more, and so on

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
  #round = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  #again: ReturnType<typeof setTimeout> | undefined

  constructor(fetch: (cursor: string | number | null) => Promise<Page<T>>, key: (item: T) => string) {
    this.#fetch = fetch
    this.#key = key
  }

  async restart(): Promise<void> {
    this.#round += 1
    clearTimeout(this.#again)
    this.items = []
    this.ready = false
    this.next = null
    await this.#read(null)
  }

  more = (): void => {
    if (!this.loading && this.next !== null) void this.#read(this.next)
  }

  // What is new comes in on top, and what was read stays where it is. More news than fit a page are read to their end:
  // nothing is missing between them and what is known.
  refresh(): void {
    this.#timer ??= setTimeout(async () => {
      this.#timer = undefined
      if (!this.ready) return
      const round = this.#round
      try {
        const known = new Set(this.items.map(this.#key))
        const fresh = new Map<string, T>()
        let cursor: string | number | null = null
        for (let pages = 0; pages < NEWS_PAGES_MAX; pages++) {
          const page: Page<T> = await this.#fetch(cursor)
          if (round !== this.#round) return
          for (const item of page.items) fresh.set(this.#key(item), item)
          cursor = page.next
          if (cursor === null || !known.size || page.items.some((item) => known.has(this.#key(item)))) break
          if (pages + 1 === NEWS_PAGES_MAX) return void this.restart()
        }
        const held = new Set(this.items.map(this.#key)) // another answer may have been faster
        const kept = this.items.map((item) => fresh.get(this.#key(item)) ?? item)
        this.items = [...[...fresh.values()].filter((item) => !held.has(this.#key(item))), ...kept]
        if (!known.size) this.next = cursor
        this.problem = null
      } catch (error) {
        if (error instanceof Problem) this.problem = error
      }
    }, 400)
  }

  stop(): void {
    this.#round += 1
    clearTimeout(this.#timer)
    clearTimeout(this.#again)
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
      if (this.problem.passing) this.#again = setTimeout(() => void this.#read(cursor), AGAIN_MS)
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
): Paged<T> {
  const list = new Paged(fetch, key)
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
