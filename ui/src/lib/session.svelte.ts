// Who is looking, and what they may do.

import { get, Problem, send, useToken, whenShutOut } from './api'

export interface Session {
  kind: string
  name: string
  role: string | null
  project: string | null
  login_required: boolean
  oidc?: boolean
  csrf_token: string | null
  expires_at: string | null
}

class SessionState {
  data = $state.raw<Session | null>(null)
  known = $state(false)

  get open(): boolean {
    return this.known && (this.data === null || !this.data.login_required || this.data.kind !== 'nobody')
  }

  constructor() {
    whenShutOut(() => {
      if (this.data) this.data = { ...this.data, kind: 'nobody', login_required: true }
    })
  }

  async load(): Promise<void> {
    try {
      this.#take(await get<Session>('v1/session'))
    } catch (error) {
      // A server that is away is waited for by the live connection.
      if (error instanceof Problem && error.status === 401) this.#take({ kind: 'nobody', login_required: true } as Session)
    }
    this.known = true
  }

  async login(key: string): Promise<void> {
    this.#take(await send<Session>('POST', 'v1/login', { key }))
  }

  async logout(): Promise<void> {
    await send('POST', 'v1/logout')
    location.reload()
  }

  #take(session: Session | null): void {
    this.data = session
    useToken(session?.csrf_token ?? null)
  }
}

export const session = new SessionState()
