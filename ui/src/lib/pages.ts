import type { Component } from 'svelte'

export const TITLES: Record<string, string> = {
  now: 'Now',
  fleet: 'Fleet',
  agents: 'Agent',
  runs: 'Runs',
  replay: 'Replay',
  turns: 'Turns & inbox',
  approvals: 'Approvals',
  incidents: 'Incidents',
  gateway: 'Gateway',
  policies: 'Policies & budgets',
  audit: 'Audit',
  settings: 'Settings',
}

export async function load(page: string): Promise<Component> {
  const all: Record<string, Component> = await import('../pages/all')
  const found = all[page]
  if (!found) throw new Error(`no page ${page}`)
  return found
}

export const NAV: { page: string; title: string; also?: string[] }[] = [
  'now', 'fleet', 'approvals', 'incidents', 'runs', 'turns', 'gateway', 'policies', 'audit', 'settings',
].map((page) => ({ page, title: TITLES[page] ?? page, ...(page === 'fleet' ? { also: ['agents'] } : page === 'runs' ? { also: ['replay'] } : {}) }))
