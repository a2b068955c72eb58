// Which rows of a long list are on screen.

export interface Slice {
  first: number
  last: number
  above: number
  below: number
}

const SPARE = 8

// Browsers cap an element's height near 33 million pixels; lists here end far below that.
export function visible(total: number, rowHeight: number, top: number, height: number): Slice {
  const first = Math.max(0, Math.min(total, Math.floor(top / rowHeight) - SPARE))
  const last = Math.max(first, Math.min(total, Math.ceil((top + height) / rowHeight) + SPARE))
  return { first, last, above: first * rowHeight, below: (total - last) * rowHeight }
}

// Where to scroll so that a row is in view; null where it is already.
export function reveal(index: number, rowHeight: number, top: number, height: number): number | null {
  const from = index * rowHeight
  if (from < top) return from
  return from + rowHeight > top + height ? from + rowHeight - height : null
}

const NEWS_MAX = 10_000

// How many rows have come in above the one that was first; none where it is gone, as when the list is another one.
export function shifted<T>(rows: T[], key: (row: T) => string, before: string): number {
  for (let index = 0; index < Math.min(rows.length, NEWS_MAX); index++) if (key(rows[index] as T) === before) return index
  return 0
}
