import { describe, expect, it } from 'vitest'
import { compared, shaped } from '../src/lib/compare'
import { grouped } from '../src/lib/evidence'
import { matches, parse } from '../src/lib/filter'

describe('two texts side by side', () => {
  it('marks what only one of them has', () => {
    const [left, right] = compared('a\nb\nc', 'a\nx\nc')
    expect(left.map((line) => line.same)).toEqual([true, false, true])
    expect(right.map((line) => line.same)).toEqual([true, false, true])
  })

  it('marks everything where the texts are too long to compare', () => {
    const long = Array.from({ length: 500 }, (_, number) => String(number)).join('\n')
    expect(compared(long, long)[0].every((line) => !line.same)).toBe(true)
  })

  it('shows JSON as people read it and leaves the rest alone', () => {
    expect(shaped('{"a":1}')).toBe('{\n  "a": 1\n}')
    expect(shaped('21 °C')).toBe('21 °C')
  })
})

describe('evidence', () => {
  it('is told once, at its worst, the worst first', () => {
    const seen = { kind: 'k', at: '', vital: '', value: 1, expected: 1, source: 'gateway' }
    const found = grouped([
      { ...seen, why: 'a', sigma: 3 },
      { ...seen, why: 'b', sigma: 9 },
      { ...seen, why: 'a', sigma: 5 },
    ] as never)
    expect(found.map((one) => [one.why, one.sigma, one.times])).toEqual([
      ['b', 9, 1],
      ['a', 5, 2],
    ])
  })
})

describe('the grammar of the server', () => {
  const row = { agent: 'billing-03', cost: 2.5, started: -60, host: null, phase: 'healthy' }
  it.each([
    ['agent=billing-03', true],
    ['agent:*-0*', true],
    ['agent:bill*4', false],
    ['phase!=healthy', false],
    ['!phase:healthy', false],
    ['cost>$2', true],
    ['started>-1h', true],
    ['started>-30s', false],
    ['host:none', true],
    ['phase:none', false],
  ])('%s is %s', (text, held) => {
    expect(matches(parse(text), row, ['agent'])).toBe(held)
  })
})
