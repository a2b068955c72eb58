import { describe, expect, test } from 'vitest'
import { matches, parse, quantity, toggled, unknownFields } from '../src/lib/filter'

const agent = { name: 'billing-7', tag: ['gpu', 'primary'], phase: 'quarantined', queue: 3, seen: 240, host: null }
const fits = (text: string) => matches(parse(text), agent, ['name', 'tag'])

describe('the filter grammar', () => {
  test.each([
    ['', true],
    ['phase:quarantined', true],
    ['phase:healthy,quarantined', true],
    ['-phase:quarantined', false],
    ['tag:gpu tag:primary', true],
    ['tag:gp*', true],
    ['tag:cpu', false],
    ['queue>2', true],
    ['queue>3', false],
    ['queue>=3 queue<=3', true],
    ['seen>3m', true],
    ['seen<3m', false],
    ['bill', true],
    ['"ILL"', true],
    ['-gpu', false],
    ['host:x', false],
    ['host>1', false],
    ['nosuch:1', false],
  ])('%s', (text, expected) => expect(fits(text)).toBe(expected))

  test('quotes keep words together', () => {
    expect(parse('tag:"two words"')[0]?.values).toEqual(['two words'])
  })
  test('units', () => {
    expect([quantity('5m'), quantity('2h'), quantity('-1h'), quantity('1.5k'), quantity('x')]).toEqual([300, 7200, -3600, 1500, null])
  })
  test('a term goes in and out', () => {
    expect(toggled('tag:a', 'phase:b')).toBe('tag:a phase:b')
    expect(toggled('tag:a phase:b', 'tag:a')).toBe('phase:b')
  })
  test('unknown fields are named', () => {
    expect(unknownFields(parse('phase:x nosuch:1 free'), ['phase'])).toEqual(['nosuch'])
  })
})
