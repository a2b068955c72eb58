import { expect, test } from 'vitest'
import { drawn } from '../src/lib/series'

test('a line ends where nothing was measured for long, and goes on behind it', () => {
  const at = [0, 2, 4, 6, 100, 102]
  expect(drawn(at, [1, 2, 3, 4, 5, 6])).toEqual([
    [0, 2, 4, 6, 53, 100, 102],
    [1, 2, 3, 4, null, 5, 6],
  ])
})

test('a sample without the value is passed over, and rare samples are no gaps', () => {
  expect(drawn([0, 2, 4], [1, null, 3])).toEqual([
    [0, 4],
    [1, 3],
  ])
  expect(drawn([0, 600, 1200, 2400], [1, 2, 3, 4])[1]).toEqual([1, 2, 3, 4])
  expect(drawn([], [])).toEqual([[], []])
})
