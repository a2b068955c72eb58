// The live connection: one resumable sequence of events, and an honest word on how fresh it is.

import { address } from './api'
import { EVENT_KINDS, type EventKind, type FeedEvent } from './types'

export type Freshness = 'connecting' | 'live' | 'reconnecting' | 'stale'

const SILENCE_MS = 25_000 // the server beats every ten seconds
const STALE_MS = 15_000
const BACKOFF_MS = [300, 600, 1200, 2500, 5000] as const
const KEPT = 200
const TAIL = 30 // what happened before this page was opened
const GATHER_MS = 50 // a burst is drawn once

interface Message {
  id: string
  event: string
  data: FeedEvent
}

type Listener = { kinds: ReadonlySet<EventKind>; hear: (event: FeedEvent) => void; reread: () => void }

// What goes as it should is too much to be kept: it would push out what somebody has to see.
export function noted(event: FeedEvent): boolean {
  return event.kind !== 'call' && event.kind !== 'turn' && !(event.kind === 'deliverable' && event.status === 'success')
}

class Live {
  freshness = $state<Freshness>('connecting')
  lostAt = $state<number | null>(null)
  now = $state(Date.now())
  recent = $state.raw<FeedEvent[]>([])
  #listeners = new Set<Listener>()
  #lastId: string | null = null
  #kinds = ''
  #abort: AbortController | null = null
  #running = false
  #kindsTimer: ReturnType<typeof setTimeout> | undefined
  #fresh: FeedEvent[] = []
  #gathering: ReturnType<typeof setTimeout> | undefined

  start(): () => void {
    this.#running = true
    void this.#run()
    const ticking = setInterval(() => {
      this.now = Date.now()
      if (this.lostAt !== null && this.now - this.lostAt > STALE_MS) this.freshness = 'stale'
    }, 1000)
    const online = () => this.#abort?.abort('online')
    addEventListener('online', online)
    return () => {
      this.#running = false
      clearInterval(ticking)
      removeEventListener('online', online)
      this.#abort?.abort('stopped')
    }
  }

  // Hear events of some kinds; `reread` is called when events were missed.
  on(kinds: readonly EventKind[], hear: (event: FeedEvent) => void, reread: () => void): () => void {
    const listener = { kinds: new Set(kinds), hear, reread }
    this.#listeners.add(listener)
    this.#reconsider()
    return () => {
      this.#listeners.delete(listener)
      this.#reconsider()
    }
  }

  // What happened before is asked for without the busy kinds: their last thirty would be all of it.
  #wanted(): string {
    const kinds = new Set<EventKind>(['phase', 'approval', 'alert', 'presence', 'policy', 'budget', 'run', 'memory'])
    if (this.#lastId) for (const listener of this.#listeners) for (const kind of listener.kinds) kinds.add(kind)
    return EVENT_KINDS.filter((kind) => kinds.has(kind)).join(',')
  }

  // Busy kinds are asked for only while a page shows them; the sequence goes on behind the last event.
  #reconsider(): void {
    clearTimeout(this.#kindsTimer)
    this.#kindsTimer = setTimeout(() => {
      if (this.#running && this.#wanted() !== this.#kinds) this.#abort?.abort('kinds')
    }, 150)
  }

  async #run(): Promise<void> {
    let attempt = 0
    while (this.#running) {
      const abort = (this.#abort = new AbortController())
      await this.#follow(abort, () => (attempt = 0))
      if (abort.signal.reason === 'kinds') continue
      if (this.lostAt === null) this.lostAt = Date.now()
      if (this.freshness !== 'stale') this.freshness = 'reconnecting'
      const pause = BACKOFF_MS[Math.min(attempt++, BACKOFF_MS.length - 1)] ?? 5000
      await new Promise((resume) => setTimeout(resume, pause * (0.7 + Math.random() * 0.6)))
    }
  }

  // One socket from its opening to its end, whoever ends it.
  #follow(abort: AbortController, arrived: () => void): Promise<void> {
    this.#kinds = this.#wanted()
    const resumed = this.#lastId ? { last_event_id: this.#lastId } : { tail: TAIL }
    const url = address('v1/ws/events', { kinds: this.#kinds, ...resumed })
    url.protocol = url.protocol.replace('http', 'ws')
    const socket = new WebSocket(url)
    return new Promise((ended) => {
      const close = () => {
        clearTimeout(watchdog)
        socket.onmessage = socket.onclose = null
        socket.close()
        ended()
      }
      let watchdog = setTimeout(close, SILENCE_MS)
      socket.onclose = close
      abort.signal.addEventListener('abort', close)
      socket.onmessage = (heard: MessageEvent<string>) => {
        clearTimeout(watchdog)
        watchdog = setTimeout(close, SILENCE_MS)
        const message = JSON.parse(heard.data) as Message
        if (message.event === 'hello') {
          arrived()
          this.freshness = 'live'
          this.lostAt = null
        }
        this.#lastId = message.id
        if (message.event === 'gap') for (const listener of this.#listeners) listener.reread()
        else if (message.event !== 'hello' && message.event !== 'beat') this.#hear(message.data)
        if (this.#wanted() !== this.#kinds) this.#reconsider()
      }
    })
  }

  #hear(event: FeedEvent): void {
    if (noted(event)) {
      this.#fresh.push(event)
      this.#gathering ??= setTimeout(() => this.#settle(), GATHER_MS)
    }
    for (const listener of this.#listeners) if (listener.kinds.has(event.kind)) listener.hear(event)
  }

  #settle(): void {
    this.#gathering = undefined
    this.recent = [...this.#fresh.reverse(), ...this.recent].slice(0, KEPT)
    this.#fresh = []
  }
}

export const live = new Live()
