// Every page but the first, in one piece: together they are half as large as they would be one by one.

export { default as agents } from './Agent.svelte'
export { default as approvals } from './Approvals.svelte'
export { default as audit } from './Audit.svelte'
export { default as fleet } from './Fleet.svelte'
export { default as gateway } from './Gateway.svelte'
export { default as incidents } from './Incidents.svelte'
export { default as policies } from './Policies.svelte'
export { default as replay } from './Replay.svelte'
export { default as runs } from './Runs.svelte'
export { default as settings } from './Settings.svelte'
export { default as turns } from './Turns.svelte'
