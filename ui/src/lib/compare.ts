// Two texts side by side, line by line: which lines are in both, in order.

export interface Line {
  text: string
  same: boolean
}

const COMPARED_MAX = 400 // lines of each side; beyond them everything counts as changed

export function lines(text: string): string[] {
  return text.split('\n')
}

// JSON is shown as people read it; everything else as it is.
export function shaped(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

export function compared(left: string, right: string): [Line[], Line[]] {
  const a = lines(left)
  const b = lines(right)
  const kept = a.length > COMPARED_MAX || b.length > COMPARED_MAX ? [] : common(a, b)
  const inLeft = new Set(kept.map(([index]) => index))
  const inRight = new Set(kept.map(([, index]) => index))
  return [a.map((text, index) => ({ text, same: inLeft.has(index) })), b.map((text, index) => ({ text, same: inRight.has(index) }))]
}

// The longest lines that both have in the same order, as pairs of their places.
function common(a: string[], b: string[]): [number, number][] {
  const best = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1))
  const at = (i: number, j: number) => best[i]?.[j] ?? 0
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const row = best[i]
      if (row) row[j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const found: [number, number][] = []
  let i = 0
  let j = 0
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) found.push([i++, j++])
    else if (at(i + 1, j) >= at(i, j + 1)) i++
    else j++
  }
  return found
}
