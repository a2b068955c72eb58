// The whole fleet, row by row, over the status socket: a snapshot in parts, then what changes.

import { address, get } from './api'
import { live } from './live.svelte'
import type { AgentRow, FeedEvent, Head, Phase } from './types'

interface Snapshot {
  type: 'snapshot'
  stream: string
  seq: number
  part: number
  parts: number
  agents: AgentRow[]
}

interface Update extends Partial<AgentRow> {
  seq: number
  event: string
  agent_id: string
  agent?: AgentRow
}

interface Delta {
  type: 'delta'
  stream: string
  since: number
  seq: number
  updates: Update[]
}

const PAINT_MS = 250

class FleetFeed {
  rows = $state.raw<AgentRow[]>([])
  heads = $state.raw<ReadonlyMap<string, Head>>(new Map())
  ready = $state(false)
  connected = $state(false)
  #byId = new Map<string, AgentRow>()
  #heads = new Map<string, Head>()
  #arriving: AgentRow[] = []
  #stream: string | null = null
  #seq = 0
  #socket: WebSocket | null = null
  #users = 0
  #painting: ReturnType<typeof setTimeout> | undefined
  #retry: ReturnType<typeof setTimeout> | undefined
  #attempt = 0
  #off: () => void = () => undefined

  // Pages that show the fleet hold it open; the last one to leave lets it go.
  hold(): () => void {
    if (this.#users++ === 0) {
      this.#open()
      void this.#readHeads()
      this.#off = live.on(
        ['phase', 'turn', 'presence'],
        (event) => this.#hear(event),
        () => {
          this.#stream = null
          this.#socket?.close()
          void this.#readHeads()
        },
      )
    }
    return () => {
      if (--this.#users > 0) return
      this.#off()
      clearTimeout(this.#retry)
      const socket = this.#socket
      this.#socket = null
      socket?.close()
      this.connected = false
    }
  }

  get(id: string): AgentRow | undefined {
    return this.#byId.get(id)
  }

  #open(): void {
    const url = address('v1/ws/status', this.#stream ? { stream: this.#stream, since: this.#seq } : {})
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
    const socket = (this.#socket = new WebSocket(url))
    socket.onopen = () => {
      this.connected = true
      this.#attempt = 0
    }
    socket.onmessage = (message) => this.#take(JSON.parse(String(message.data)) as Snapshot | Delta)
    socket.onclose = () => {
      if (this.#socket !== socket) return
      this.connected = false
      this.#retry = setTimeout(() => this.#open(), Math.min(5000, 300 * 2 ** this.#attempt++))
    }
  }

  #take(message: Snapshot | Delta): void {
    if (message.type === 'snapshot') {
      if (message.part === 1) this.#arriving = []
      this.#arriving.push(...message.agents)
      if (message.part < message.parts) return
      this.#byId = new Map(this.#arriving.map((row) => [row.agent_id, row]))
      this.#arriving = []
    } else {
      if (message.stream !== this.#stream) return
      for (const update of message.updates) this.#apply(update)
    }
    this.#stream = message.stream
    this.#seq = message.seq
    this.#paint()
  }

  #apply(update: Update): void {
    if (update.event === 'deregistered' || update.event === 'expired') {
      this.#byId.delete(update.agent_id)
      return
    }
    if (update.agent) {
      this.#byId.set(update.agent_id, update.agent)
      return
    }
    const row = this.#byId.get(update.agent_id)
    if (row) this.#byId.set(update.agent_id, { ...row, ...update } as AgentRow)
  }

  #hear(event: FeedEvent): void {
    const id = event.agent_id
    if (!id) return
    const row = this.#byId.get(id)
    if (event.kind === 'phase' && row) this.#byId.set(id, { ...row, phase: event.phase as Phase })
    if (event.kind === 'turn') {
      const before = this.#heads.get(id)
      const meta = (event.metadata ?? {}) as { waiting_tool_count?: number }
      this.#heads.set(id, {
        ...(before ?? ({ agent_id: id } as Head)),
        status: event.status as Head['status'],
        turn_id: event.turn_id as string | null,
        worker_id: event.status === 'running' ? (before?.worker_id ?? 'leased') : null,
        gate: String(event.gate),
        queued: Number(event.queued),
        waiting_tool_count: meta.waiting_tool_count ?? 0,
      })
    }
    this.#paint()
  }

  async #readHeads(): Promise<void> {
    let cursor: string | null = null
    try {
      do {
        const page: { heads: Head[]; next_cursor: string | null } = await get('v1/heads', { cursor, limit: 500 })
        for (const head of page.heads) this.#heads.set(head.agent_id, head)
        cursor = page.next_cursor
        this.#paint()
      } while (cursor)
    } catch {
      // Without heads the rows still say who is there.
    }
  }

  #paint(): void {
    this.#painting ??= setTimeout(() => {
      this.#painting = undefined
      this.rows = [...this.#byId.values()]
      this.heads = new Map(this.#heads)
      this.ready = this.#stream !== null
    }, this.ready ? PAINT_MS : 0)
  }
}

export const fleet = new FleetFeed()
