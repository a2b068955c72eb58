// Keys of the page that is shown. Nothing destructive has a key of its own: keys open, a second step confirms.

import { onDestroy } from 'svelte'

export type Keymap = Record<string, { label: string; run: () => void }>

class Keys {
  maps = $state.raw<Keymap[]>([])

  press(key: string): boolean {
    for (const map of [...this.maps].reverse()) {
      const found = map[key]
      if (found) {
        found.run()
        return true
      }
    }
    return false
  }
}

export const keys = new Keys()

export function useKeys(map: Keymap): void {
  keys.maps = [...keys.maps, map]
  onDestroy(() => {
    keys.maps = keys.maps.filter((one) => one !== map)
  })
}

export function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
}
