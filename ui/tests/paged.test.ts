import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Problem } from '../src/lib/api'
import { Paged, type Page } from '../src/lib/paged.svelte'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

// Answers are given by hand, so that two questions can be under way at once.
function server(): { answer: (items: string[]) => Promise<void>; fetch: () => Promise<Page<string>> } {
  const open: ((page: Page<string>) => void)[] = []
  return {
    answer: async (items) => {
      open.shift()?.({ items, next: null })
      await vi.advanceTimersByTimeAsync(0)
    },
    fetch: () => new Promise((resolve) => open.push(resolve)),
  }
}

test('news that two questions bring at once are shown once', async () => {
  const { answer, fetch } = server()
  const list = new Paged<string>(fetch, (item) => item)
  void list.restart()
  await answer(['a'])
  list.refresh()
  await vi.advanceTimersByTimeAsync(400)
  list.refresh() // the first answer is slow
  await vi.advanceTimersByTimeAsync(400)
  await answer(['b', 'a'])
  await answer(['c', 'b', 'a'])
  expect(list.items).toEqual(['c', 'b', 'a'])
})

// The first page is there, and the server goes away before the second, or before any.
test.each([0, 1])('a list that could not be read goes on after page %i once the server is back', async (read) => {
  let up = read > 0
  const pages: Page<string>[] = [{ items: ['c', 'b'], next: 'b' }, { items: ['a'], next: null }]
  const list = new Paged<string>(
    async (cursor) => {
      if (!up) throw new Problem(0, 'unreachable', 'The server cannot be reached.')
      return pages[cursor === null ? 0 : 1] as Page<string>
    },
    (item) => item,
  )
  await list.restart()
  up = false
  list.more()
  await vi.advanceTimersByTimeAsync(10_000)
  expect(list.problem?.code).toBe('unreachable')
  up = true
  await vi.advanceTimersByTimeAsync(3000)
  expect(list.problem).toBeNull()
  list.more()
  await vi.advanceTimersByTimeAsync(0)
  expect(list.items).toEqual(['c', 'b', 'a'])
})

test('what is wrong with the question is not asked again', async () => {
  let asked = 0
  const list = new Paged<string>(
    async () => {
      asked += 1
      throw new Problem(422, 'filter_invalid', 'There is no such field.')
    },
    (item) => item,
  )
  await list.restart()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(asked).toBe(1)
})
