import { describe, expect, test } from 'vitest'
import { age, brief, count, millis, percent, seconds, usd } from '../src/lib/format'
import { activity, headline } from '../src/lib/headline'
import { noted } from '../src/lib/live.svelte'
import { href, parse } from '../src/lib/route.svelte'
import { sentence } from '../src/lib/sentence'
import type { FeedEvent, Head, Overview } from '../src/lib/types'
import { reveal, shifted, visible } from '../src/lib/window'

describe('addresses', () => {
  test.each(['agent-1', 'a/b?c#d', '100%', '<img src=x>', 'ü 漢'])('%s survives its address', (id) => {
    expect(parse(href('agents', id, { q: 'tag:a b' }))).toMatchObject({ page: 'agents', id })
    expect(parse(href('agents', id, { q: 'tag:a b' })).query.get('q')).toBe('tag:a b')
  })
  test('nothing is Now', () => {
    expect(parse('')).toMatchObject({ page: 'now', id: null })
    expect(parse('#/agents')).toMatchObject({ page: 'fleet', id: null })
    expect(parse('#/replay/?mode=exact')).toMatchObject({ page: 'runs', id: null })
    expect(parse('#/agents/%E0%A4%A')).toMatchObject({ page: 'agents', id: '%E0%A4%A' })
  })
})

test.each([
  ['call', undefined, false],
  ['turn', undefined, false],
  ['deliverable', 'success', false],
  ['deliverable', 'error', true],
  ['phase', undefined, true],
  ['run', 'success', true],
] as const)('of %s %s is noted: %s', (kind, status, kept) => {
  expect(noted({ kind, status } as unknown as FeedEvent)).toBe(kept)
})

describe('headlines', () => {
  const head = (status: Head['status'], more: Partial<Head> = {}) => ({ status, gate: 'open', worker_id: 'w', waiting_tool_count: 0, ...more }) as Head
  test.each([
    ['dead', 'quarantined', null, false, 'dead'],
    ['alive', 'quarantined', head('running'), false, 'quarantined'],
    ['alive', 'quarantined', null, true, 'quarantined approval waiting'],
    ['stale', 'suspected', head('running'), true, 'approval waiting'],
    ['stale', 'suspected', null, false, 'suspected'],
    ['stale', 'healthy', head('running'), false, 'stale'],
    ['alive', 'healthy', head('running'), false, 'running'],
    ['alive', 'healthy', head('running', { worker_id: null }), false, 'idle'],
    ['stale', 'probation', head('running', { gate: 'closed' }), false, 'stale'],
    ['alive', 'initializing', head('running', { gate: 'closed' }), false, 'paused'],
    ['alive', 'healthy', head('suspended', { waiting_tool_count: 2 }), false, 'suspended waiting for 2 tools'],
    ['alive', 'healthy', null, false, 'idle'],
  ] as const)('%s %s', (presence, phase, state, asked, word) => {
    const told = headline({ presence, phase, reported_status: 'running' }, state, asked)
    expect(`${told.word} ${told.note}`.trim()).toBe(word)
  })
})

test('who was never heard is registered', () => {
  expect(headline({ presence: 'alive', phase: 'initializing', reported_status: null }, null, false).word).toBe('registered')
})

describe('activities', () => {
  test('say what a turn does, and nothing where there is no lease', () => {
    const doing = (more: Partial<Head>) => activity({ status: 'idle', worker_id: null, waiting_tool_count: 0, ...more } as Head)
    expect(doing({ status: 'running', worker_id: 'wrk_1' })).toBe('thinking')
    expect(doing({ status: 'running' })).toBe('')
    expect([1, 3].map((waits) => doing({ status: 'suspended', waiting_tool_count: waits }))).toEqual(['awaiting a tool', 'awaiting 3 tools'])
    expect([doing({ status: 'dispatched' }), doing({}), activity(null)]).toEqual(['about to begin', '', ''])
  })
})

describe('windows', () => {
  test('only what is on screen, whatever the size', () => {
    const slice = visible(100_000, 30, 1_500_000, 600)
    expect(slice.last - slice.first).toBeLessThan(40)
    expect(slice.above + slice.below + (slice.last - slice.first) * 30).toBe(3_000_000)
    expect(visible(3, 30, 0, 600)).toEqual({ first: 0, last: 3, above: 0, below: 0 })
    expect(visible(3, 30, 9000, 600).first).toBeLessThanOrEqual(3)
  })
  test('what came in on top is counted, and another list moves nothing', () => {
    const same = (row: string) => row
    expect(shifted(['d', 'c', 'b', 'a'], same, 'b')).toBe(2)
    expect([shifted(['b', 'a'], same, 'b'), shifted(['x'], same, 'b'), shifted([], same, 'b')]).toEqual([0, 0, 0])
  })
  test('a row is brought into view', () => {
    expect([reveal(0, 30, 90, 300), reveal(20, 30, 0, 300), reveal(4, 30, 0, 300)]).toEqual([0, 330, null])
  })
})

describe('words', () => {
  test('figures carry units', () => {
    expect([seconds(0.4), seconds(75), seconds(7200), seconds(null)]).toEqual(['0.4\u00a0s', '75\u00a0s', '2\u00a0h', '–'])
    expect([count(1234), count(12_345), count(2_500_000), count(0.5)]).toEqual(['1,234', '12.3\u00a0k', '2.5\u00a0M', '0.5'])
    expect([usd(0), usd(0.0012), usd(3.1)]).toEqual(['$0', '$0.0012', '$3.10'])
    expect([millis(420), millis(1500), percent(0.034), percent(1)]).toEqual(['420\u00a0ms', '1.5\u00a0s', '3.4\u00a0%', '100\u00a0%'])
    expect(age('2026-01-01T00:00:00Z', Date.parse('2026-01-01T00:01:00Z'))).toBe('60\u00a0s')
    expect(brief({ a: 'x'.repeat(300) }).length).toBe(120)
  })
  test('one sentence', () => {
    const now = {
      agents: 42,
      phases: { healthy: 41, quarantined: 1 },
      presence: {},
      approvals_pending: 2,
      traffic: { cost_usd: 3.1 },
    } as unknown as Overview
    expect(sentence(now, 1)).toBe('41 of 42 agents healthy, 1 isolated, 2 approvals waiting, 1 open incident, $3.10 in the last hour.')
    expect(sentence({ ...now, phases: { healthy: 42 }, approvals_pending: 0 }, 0)).toBe('All 42 agents are healthy, $3.10 in the last hour.')
    expect(sentence(now, 1, 1)).toContain('3 approvals waiting')
    expect(sentence(now, 1, 0, 1)).toBe('41 of 42 agents healthy, 1 isolated, 2 approvals waiting, 1 open incident, 1 run stands still, $3.10 in the last hour.')
    expect(sentence(now, 0, 0, 2)).toContain('2 runs stand still')
    expect(sentence({ ...now, agents: 0 }, 0)).toBe('No agent is registered yet.')
    expect(sentence({ ...now, agents: 10_005, phases: { initializing: 10_004 } }, 0)).toContain('0 of 10,005 agents healthy, 10,004 still learning')
    const begun = { at: '2026-01-01T12:02:30Z', traffic_since: '2026-01-01T12:00:00Z' }
    expect(sentence({ ...now, ...begun }, 0), 'a server that has just begun knows of no hour').toContain('$3.10 in the last 3\u00a0min')
    expect(sentence({ ...now, ...begun, at: '2026-01-01T18:00:00Z' }, 0)).toContain('$3.10 in the last hour')
  })
})
