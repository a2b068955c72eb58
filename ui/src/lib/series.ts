// Samples as a line is drawn through them: not through what was not measured, and not across a time without any.

const GAP_SECONDS_LEAST = 30
const GAP_STEPS = 8 // a pause this many times the usual one is a gap

export function drawn(at: number[], values: (number | null)[]): [number[], (number | null)[]] {
  const known = at.map((time, index) => [time, values[index] ?? null] as const).filter(([, value]) => value !== null)
  const steps = known.slice(1).map(([time], index) => time - (known[index]?.[0] ?? time))
  const usual = steps.toSorted((a, b) => a - b)[steps.length >> 1] ?? 0
  const longest = Math.max(GAP_SECONDS_LEAST, GAP_STEPS * usual)
  const line: [number, number | null][] = []
  known.forEach(([time, value], index) => {
    const step = steps[index - 1] ?? 0
    if (step > longest) line.push([time - step / 2, null])
    line.push([time, value])
  })
  return [line.map(([time]) => time), line.map(([, value]) => value)]
}
