export type Theme = 'system' | 'light' | 'dark'

const KEY = 'homeostat.theme'

function stored(): Theme {
  try {
    const found = localStorage.getItem(KEY)
    return found === 'light' || found === 'dark' ? found : 'system'
  } catch {
    return 'system'
  }
}

class ThemeChoice {
  choice = $state<Theme>(stored())
  // Counts changes, so that what draws on a canvas draws anew.
  version = $state(0)

  set(choice: Theme): void {
    this.choice = choice
    try {
      localStorage.setItem(KEY, choice)
    } catch {
      // A browser that keeps nothing shows the choice until it is closed.
    }
    applyTheme()
  }
}

export const theme = new ThemeChoice()

export function applyTheme(): void {
  if (theme.choice === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme.choice
  theme.version += 1
}

if (typeof matchMedia !== 'undefined') {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => (theme.version += 1))
}

export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
}
