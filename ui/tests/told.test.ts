import { describe, expect, test } from 'vitest'
import { grouped, reasons } from '../src/lib/evidence'
import { told } from '../src/lib/ledger'
import { told as news } from '../src/lib/news'
import { named, settled } from '../src/lib/objects'
import { outlays } from '../src/lib/runs'
import type { FeedEvent, LedgerEntry, ModelCall, Task } from '../src/lib/types'

describe('what an act was done to', () => {
  test.each([
    ['agent/ann', 'ann', '#/agents/ann'],
    ['agent/a/b', 'a/b', '#/agents/a%2Fb'],
    ['task/run_1/read it', 'run run_1, task read it', '#/runs/run_1'],
    ['budget/run/run_1', 'budget of run run_1', '#/runs/run_1'],
    ['approval/apr_1', 'question apr_1', '#/approvals?id=apr_1'],
    ['red-button', 'red button', '#/runs'],
    ['policies', 'policies', null],
    ['constructor/x', 'constructor x', null],
    ['/v1/agents/ann/quarantine', 'ann', '#/agents/ann'],
    ['/v1/agents/a%2Fb/cordon', 'a/b', '#/agents/a%2Fb'],
    ['/v1/runs/run_1/tasks/publish/approve', 'run run_1, task publish', '#/runs/run_1'],
    ['/v1/turns/turn_1/requeue', 'turn turn_1', '#/turns/turn_1'],
    ['/v1/budgets/agent/ann', 'budget of ann', '#/agents/ann'],
    ['/v1/budgets/run/run_1', 'budget of run run_1', '#/runs/run_1'],
    ['/v1/policies/slow', 'policy slow', '#/policies?id=slow'],
    ['/v1/immune/approvals/apr_1/approve', 'question apr_1', '#/approvals?id=apr_1'],
    ['/v1/keys/key_1', 'key key_1', null],
    ['/v1/red-button', 'red button', '#/runs'],
    ['/v1/policies', 'policies', null],
    ['/v1/agents/%E0%A4%A/kill', '%E0%A4%A', '#/agents/%25E0%25A4%25A'],
    ['/v2/<img src=x>', 'v2 <img src=x>', null],
    ['', '', null],
  ])('%s', (object, words, link) => {
    expect(named(object)).toEqual({ words, link })
  })
  test('an act that was answered is told once, by its answer', () => {
    const act = (seq: number, outcome: string, of_seq: number | null = null) => ({ seq, outcome, of_seq })
    const acts = [act(5, 'requested'), act(4, 'failed', 3), act(3, 'requested'), act(2, 'done', 1), act(1, 'requested')]
    expect(settled(acts).map((one) => one.seq)).toEqual([5, 4, 2])
  })
})

describe('evidence', () => {
  const seen = (why: string, at: string, sigma = 4, source = 'gateway') => ({ kind: 'k', why, at, sigma, source, vital: null, value: null, expected: null })
  test('the same is told once, with how often, from when to when, and by whom', () => {
    const [cost, slow] = grouped([seen('slow', '2'), seen('cost', '3', 9), seen('slow', '1', 5, 'turn'), seen('slow', '4')] as never)
    expect(cost).toMatchObject({ why: 'cost', times: 1 })
    expect(slow).toMatchObject({ why: 'slow', times: 3, at: '1', until: '4', sigma: 5, sources: ['turn', 'gateway'] })
  })
  test('what several guesses rest on is told with the first', () => {
    const guess = (diagnosis: string, because: string[]) => ({ diagnosis, confidence: 0.5, because })
    const told = reasons([guess('a', ['x', 'y']), guess('b', ['x']), guess('c', ['x', 'z'])]).map((one) => one.told)
    expect(told).toEqual(['x; y', 'by the same signs', 'z'])
  })
})

test('a call is counted for the task its agent was working on', () => {
  const task = (name: string, agent_id: string, from: number, to: number | null) =>
    ({ name, agent_id, started_at: new Date(from).toISOString(), ended_at: to === null ? null : new Date(to).toISOString() }) as Task
  const call = (agent_id: string, at: number) => ({ agent_id, started_at: new Date(at).toISOString(), tokens_in: 10, tokens_out: 5, cost_usd: 0.5 }) as ModelCall
  const tasks = [task('one', 'ann', 1000, 2000), task('two', 'ann', 3000, null), task('three', 'bob', 1000, 2000)]
  const found = outlays(tasks, [call('ann', 1500), call('ann', 1600), call('ann', 3500), call('ann', 2500), call('cid', 1500)], 4000)
  expect(found.get('one')).toEqual({ calls: 2, tokens: 30, usd: 1 })
  expect(found.get('two')).toEqual({ calls: 1, tokens: 15, usd: 0.5 })
  expect(found.has('three')).toBe(false)
})

describe('entries of a ledger', () => {
  const line = (kind: string, payload: unknown) => told({ seq: 1, kind, payload, hash: '' } as LedgerEntry)
  const model = { asked: { told_json: '{"model":"m","messages":[{"content":"why?"}]}' }, outcome_json: '{"ok":{"message":{"content":"so"}}}' }
  test.each([
    ['run.moved', { from: 'paused', to: 'applying', actor: 'olga', reason: 'approved' }, 'paused → applying by olga: approved'],
    ['run.changed', { change: 'approval_asked', task: 'publish' }, 'approval asked, publish'],
    ['run.changed', { change: 'skipped', tasks: ['sum', 'send'] }, 'skipped, sum send'],
    ['task.ended', { task: 'read', status: 'failed', agent_id: 'ann', error: 'no', result: null }, 'read failed at ann: no'],
    ['turn.ended', { task: { name: 'read', status: 'succeeded' }, agent_id: 'ann', status: 'success', result_json: '9' }, 'read succeeded at ann: 9'],
    ['turn.ended', { task: { name: 'read' }, agent_id: 'ann', status: 'failed', result_json: 'null' }, 'ann ended with failed: null'],
    ['model.call', model, 'm: why? → so'],
    ['step', { name: 'count', asked: { told_json: '{"args":[1]}' }, outcome_json: '{"ok":9}' }, 'count: [1] → 9'],
    ['step', { name: 'count', asked: { told_json: '{}' }, outcome_json: '{"error":"x"}' }, 'count:  → {"error":"x"}'],
    ['gateway.call', { agent_id: 'ann', model: 'm', outcome: 'answered', latency_ms: 87.2, cost_micros: 11 }, 'ann asked m: answered in 87\u00a0ms for $0.000011'],
    ['model.call', { asked: {} }, '{"asked":{}}'],
    ['something.new', { a: 1 }, '{"a":1}'],
    ['constructor', { a: 1 }, '{"a":1}'],
  ])('%s', (kind, payload, words) => {
    expect(line(kind, payload)).toBe(words)
  })
})

describe('an event', () => {
  test.each([
    [{ kind: 'policy', target: 'pol_1' }, 'policy or budget changed: pol_1'],
    [{ kind: 'budget', holder: 'billing_bot' }, 'budget nearly spent: billing_bot'],
    [{ kind: 'run', status: 'paused', reason: 'approval is needed: write_report' }, 'is paused: approval is needed: write_report'],
    [{ kind: 'approval', status: 'pending', action: 'reset_memory' }, 'waits for an answer: reset memory'],
    [{ kind: 'phase', source: 'draining', phase: 'quarantined', cause: 'see run_7' }, 'draining → quarantined: see run_7'],
  ])('%o: names and reasons as they were written', (event, told) => {
    expect(news(event as unknown as FeedEvent)).toBe(told)
  })
})
