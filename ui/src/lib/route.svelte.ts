// Every view is its address. Routes live behind the hash: the page then works under any path of a proxy.

export interface Place {
  page: string
  id: string | null
  query: URLSearchParams
}

// Pages of one thing: without a name, what there is to choose from.
const LISTS: Record<string, string> = { agents: 'fleet', replay: 'runs' }

export function parse(hash: string): Place {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s)
  const [page = '', ...rest] = path.split('/')
  let id: string | null = rest.length ? rest.join('/') : null
  try {
    id = id === null ? null : decodeURIComponent(id)
  } catch {
    // A name that is not encoded well is taken as it is.
  }
  return { page: (id ? page : (LISTS[page] ?? page)) || 'now', id: id || null, query: new URLSearchParams(search) }
}

export function href(page: string, id?: string | null, query?: Record<string, string | null | undefined>): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {})) if (value) search.set(name, value)
  const path = id == null ? page : `${page}/${encodeURIComponent(id)}`
  const tail = search.toString()
  return `#/${path}${tail ? `?${tail}` : ''}`
}

class Router {
  place = $state.raw<Place>(parse(typeof location === 'undefined' ? '' : location.hash))

  start(): () => void {
    const changed = () => {
      this.place = parse(location.hash)
    }
    addEventListener('hashchange', changed)
    return () => removeEventListener('hashchange', changed)
  }

  get(name: string): string {
    return this.place.query.get(name) ?? ''
  }

  // Views that refine the one before them leave no step behind them in the history.
  set(change: Record<string, string | null>): void {
    const query = new URLSearchParams(this.place.query)
    for (const [name, value] of Object.entries(change)) {
      if (value) query.set(name, value)
      else query.delete(name)
    }
    const next = href(this.place.page, this.place.id, Object.fromEntries(query))
    history.replaceState(null, '', next)
    this.place = parse(next)
  }

  go(target: string): void {
    location.hash = target
  }
}

export const router = new Router()
