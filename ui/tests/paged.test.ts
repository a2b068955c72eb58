import { afterEach, beforeEach, expect, test, vi } from 'vitest'
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
