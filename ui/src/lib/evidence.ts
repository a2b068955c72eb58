// The same thing seen several times is said once, and so is what several guesses rest on.

import type { Incident } from './types'

type Evidence = Incident['evidence'][number]

export interface Seen extends Evidence {
  times: number
  until: string
  sources: string[]
}

export function grouped(evidence: Evidence[], by: 'why' | 'kind' = 'why'): Seen[] {
  const found = new Map<string, Seen>()
  for (const one of evidence.toSorted((a, b) => b.sigma - a.sigma)) {
    const known = found.get(one[by])
    if (!known) found.set(one[by], { ...one, times: 1, until: one.at, sources: [one.source] })
    else {
      known.times += 1
      if (one.at < known.at) known.at = one.at
      if (one.at > known.until) known.until = one.at
      if (!known.sources.includes(one.source)) known.sources.push(one.source)
    }
  }
  return [...found.values()]
}

export interface Guess {
  diagnosis: string
  confidence: number
  because: string[]
}

// What a hypothesis rests on that none above it does; where that is nothing, it says so.
export function reasons(guesses: Guess[]): (Guess & { told: string })[] {
  const said = new Set<string>()
  return guesses.map((guess) => {
    const fresh = guess.because.filter((why) => !said.has(why))
    for (const why of fresh) said.add(why)
    return { ...guess, told: fresh.join('; ') || 'by the same signs' }
  })
}
