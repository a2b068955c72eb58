import type { Component } from 'svelte'

interface Page {
  title: string
  load?: () => Promise<{ default: Component }>
}

export const PAGES: Record<string, Page> = {
  now: { title: 'Now' },
  fleet: { title: 'Fleet', load: () => import('../pages/Fleet.svelte') },
  agents: { title: 'Agent', load: () => import('../pages/Agent.svelte') },
  approvals: { title: 'Approvals', load: () => import('../pages/Approvals.svelte') },
}

export const NAV: { page: string; title: string; also?: string[] }[] = [
  { page: 'now', title: 'Now' },
  { page: 'fleet', title: 'Fleet', also: ['agents'] },
  { page: 'approvals', title: 'Approvals' },
]
