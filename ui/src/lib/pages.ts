import type { Component } from 'svelte'

interface Page {
  title: string
  load?: () => Promise<{ default: Component }>
}

export const PAGES: Record<string, Page> = {
  now: { title: 'Now' },
  fleet: { title: 'Fleet', load: () => import('../pages/Fleet.svelte') },
  agents: { title: 'Agent', load: () => import('../pages/Agent.svelte') },
  runs: { title: 'Runs', load: () => import('../pages/Runs.svelte') },
  turns: { title: 'Turns & inbox', load: () => import('../pages/Turns.svelte') },
  approvals: { title: 'Approvals', load: () => import('../pages/Approvals.svelte') },
  incidents: { title: 'Incidents', load: () => import('../pages/Incidents.svelte') },
  gateway: { title: 'Gateway', load: () => import('../pages/Gateway.svelte') },
  policies: { title: 'Policies & budgets', load: () => import('../pages/Policies.svelte') },
  audit: { title: 'Audit', load: () => import('../pages/Audit.svelte') },
  settings: { title: 'Settings', load: () => import('../pages/Settings.svelte') },
}

export const NAV: { page: string; title: string; also?: string[] }[] = [
  { page: 'now', title: 'Now' },
  { page: 'fleet', title: 'Fleet', also: ['agents'] },
  { page: 'approvals', title: 'Approvals' },
  { page: 'incidents', title: 'Incidents' },
  { page: 'runs', title: 'Runs' },
  { page: 'turns', title: 'Turns & inbox' },
  { page: 'gateway', title: 'Gateway' },
  { page: 'policies', title: 'Policies & budgets' },
  { page: 'audit', title: 'Audit' },
  { page: 'settings', title: 'Settings' },
]
