// The server, relative to wherever this page was served from.

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly hint: string = '',
    readonly traceId: string = '',
  ) {
    super(detail)
  }

  // The server is older than this page, or this part is not switched on.
  get absent(): boolean {
    return this.code === 'route_unknown' || this.status === 501
  }

  // The same question may be answered a little later.
  get passing(): boolean {
    return !this.absent && (this.status === 0 || this.status === 429 || this.status >= 500)
  }
}

export function address(path: string, query: Record<string, unknown> = {}): URL {
  const url = new URL(path, document.baseURI)
  url.hash = ''
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '') url.searchParams.set(name, String(value))
  }
  return url
}

async function problem(response: Response): Promise<Problem> {
  try {
    const body = (await response.json()) as Record<string, string>
    return new Problem(
      response.status,
      body.code ?? 'unknown',
      body.detail ?? response.statusText,
      body.hint ?? '',
      body.trace_id ?? '',
    )
  } catch {
    return new Problem(response.status, 'unknown', `The server answered ${response.status}.`)
  }
}

async function answer(url: URL, init: RequestInit): Promise<Response> {
  let response: Response
  try {
    response = await fetch(url, { credentials: 'same-origin', redirect: 'error', ...init })
  } catch (error) {
    if (init.signal?.aborted) throw error
    throw new Problem(0, 'unreachable', 'The server cannot be reached.', 'What is shown may be old.')
  }
  if (response.status === 401) shutOut()
  if (!response.ok) throw await problem(response)
  return response
}

// Called when the server no longer knows who this is.
let shutOut: () => void = () => undefined

export function whenShutOut(act: () => void): void {
  shutOut = act
}

export async function get<T>(path: string, query: Record<string, unknown> = {}, signal?: AbortSignal): Promise<T> {
  const response = await answer(address(path, query), { signal: signal ?? null })
  return (await response.json()) as T
}

function uniqueKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

export async function send<T>(
  method: 'POST' | 'PUT' | 'DELETE',
  path: string,
  body?: unknown,
  query: Record<string, unknown> = {},
): Promise<T | null> {
  const headers: Record<string, string> = { 'idempotency-key': uniqueKey(), ...csrf() }
  if (body !== undefined) headers['content-type'] = 'application/json'
  const response = await answer(address(path, query), {
    method,
    headers,
    body: body === undefined ? null : JSON.stringify(body),
  })
  const text = await response.text()
  return text ? (JSON.parse(text) as T) : null
}

// Where a session is kept in a cookie, its token is sent along: another site can send the cookie, but not read this.
let token: string | null = null

export function useToken(fresh: string | null): void {
  token = fresh
}

function csrf(): Record<string, string> {
  return token ? { 'x-homeostat-csrf': token } : {}
}

export function asCurl(method: string, path: string, body?: unknown): string {
  const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
  const parts = ['curl', '-sS', ...(method === 'GET' ? [] : ['-X', method]), quote(address(path).href)]
  if (body !== undefined) parts.push('-H', quote('content-type: application/json'), '-d', quote(JSON.stringify(body)))
  return parts.join(' ')
}
