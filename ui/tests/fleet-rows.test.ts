import { expect, test } from 'vitest'
import { grouped, keyOf, type FleetRow } from '../src/lib/fleet-rows'
import type { AgentRow } from '../src/lib/types'

const agent = (agent_id: string, tags: string[]) => ({ row: { agent_id, agent_type: 't', tags } as AgentRow }) as FleetRow

test('an agent stands in the group of each of its tags, and no two lines are taken for one', () => {
  const rows = [agent('ann', ['gpu', 'night']), agent('bob', ['gpu']), agent('cid', [])]
  const lines = grouped(rows, 'tag')
  const told = lines.map((line) => ('group' in line ? `${line.group} ${line.size}` : line.row.agent_id))
  expect(told).toEqual(['gpu 2', 'ann', 'bob', 'night 1', 'ann', 'no tag 1', 'cid'])
  expect(new Set(lines.map(keyOf)).size).toBe(lines.length)
  expect(grouped(rows, 'type').map(keyOf)).toEqual(['group t', 'ann in t', 'bob in t', 'cid in t'])
  expect(grouped(rows, '').map(keyOf)).toEqual(['ann', 'bob', 'cid'])
})
