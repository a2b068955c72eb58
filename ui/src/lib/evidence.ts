// The same thing seen several times is said once.

import type { Incident } from './types'

type Evidence = Incident['evidence'][number]

export function grouped(evidence: Evidence[]): (Evidence & { times: number })[] {
  const found = new Map<string, Evidence & { times: number }>()
  for (const one of evidence) {
    const known = found.get(one.why)
    found.set(one.why, { ...one, sigma: Math.max(one.sigma, known?.sigma ?? 0), times: (known?.times ?? 0) + 1 })
  }
  return [...found.values()].sort((a, b) => b.sigma - a.sigma)
}
