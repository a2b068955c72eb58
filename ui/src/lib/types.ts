// What the server sends, as far as the pages read it.

export type Phase =
  | 'initializing'
  | 'healthy'
  | 'suspected'
  | 'draining'
  | 'quarantined'
  | 'healing'
  | 'probation'
  | 'exhausted'
export type Presence = 'alive' | 'stale' | 'dead' | 'gone'

export interface AgentRow {
  agent_id: string
  agent_type: string
  tags: string[]
  hostname: string | null
  pid: number | null
  version: string | null
  registered_at: string
  presence: Presence
  presence_since: string
  phase: Phase
  status: string
  reported_status: string | null
  last_seen_at: string
  started_at: string | null
  uptime_seconds: number | null
  last_action: string | null
  last_action_at: string | null
  items_processed: number | null
  queue_depth: number | null
  processing_time_avg_ms: number | null
  error_count: number | null
  memory_mb: number | null
  push_interval_seconds: number
  push_interval_source: string
}

export interface Head {
  agent_id: string
  status: 'idle' | 'dispatched' | 'running' | 'suspended'
  epoch: number
  version: number
  turn_id: string | null
  worker_id: string | null
  lease_expires_at: string | null
  gate: string
  gate_reason: string | null
  queued: number
  waiting_tool_count: number
  resume_deadline: string | null
  starts: number
  losses: number
  last_turn_id: string | null
  since: string
}

export interface AgentDetail extends AgentRow {
  head: Head | null
}

export interface Evidence {
  kind: string
  sigma: number
  at: string
  why: string
  vital: string
  value: number | null
  expected: number | null
  source: string
}

export interface Treatment {
  action: string
  diagnosis: string
  applied: string
  note: string
  at: string
  cured: boolean | null
  approval_id: string | null
}

export interface Incident {
  incident_id: string
  agent_id: string | null
  opened_at: string
  closed_at: string | null
  spread: string
  cohort: string
  agents: string[]
  sigma: number
  evidence: Evidence[]
  hypotheses: { diagnosis: string; confidence: number; because: string[] }[]
  treatments: Treatment[]
  passed_over: string[]
  outcome: string
  held: number
  resumed: number
  lost: number
}

export interface Step {
  at: string
  source: Phase
  event: string
  target: Phase
  cause: string
  actor: string
  incident_id: string | null
  evidence: string[]
}

export interface Normal {
  vital: string
  samples: number
  mean: number
  deviation: number
  highest: number
}

export interface Health {
  agent_id: string
  phase: Phase
  since: string
  cause: string
  actor: string
  sigma: number
  quarantines: number
  incident: Incident | null
  baseline: Normal[]
  history: Step[]
  receipt?: Receipt | null
}

export interface Approval {
  approval_id: string
  agent_id: string
  incident_id: string
  action: string
  diagnosis: string
  sigma: number
  evidence_digest: string
  why: string
  status: 'pending' | 'approved' | 'rejected' | 'expired'
  asked_at: string
  expires_at: string
  answered_at: string | null
  answered_by: string
  reason: string
  stands_until: string | null
}

export interface Traffic {
  calls: number
  errors: number
  tokens_in: number
  tokens_out: number
  cost_usd: number
  latency_ms_p50: number | null
  latency_ms_p95: number | null
}

export interface TrafficPage {
  since: string
  total: Traffic
  minutes: (Traffic & { at: string })[]
  models: Record<string, Traffic>
}

export interface Overview {
  at: string
  project: string
  version: string
  stream: string
  agents: number
  presence: Record<string, number>
  phases: Partial<Record<Phase, number>>
  approvals_pending: number
  traffic_since: string
  traffic: Traffic
  calls_open: number
  store: string
  simulated: boolean
}

export interface VitalsSample {
  at: string
  latency_ms: number | null
  tokens_in: number | null
  tokens_out: number | null
  cost_usd: number | null
  tool_calls: number
  retries: number
  error: boolean
}

export interface Turn {
  turn_id: string
  inbox_id: string
  agent_id: string
  seq: number
  type: string
  payload: unknown
  correlation_id: string | null
  source_agent_id: string | null
  parent_turn_id: string | null
  trace_id: string | null
  depth: number
  run_id: string | null
  created_at: string
  status: string
  item_status?: string
  epoch?: number
  starts: number
  losses: number
  worker_id?: string | null
  lease_expires_at?: string | null
  waits?: Wait[]
  deliverable?: { status: string; result: unknown; error: unknown; finished_at: string } | null
}

export interface Wait {
  tool_call_id: string
  tool: string
  status: string
  deadline_at: string
  answered_at: string | null
}

export interface InboxPage {
  agent_id: string
  queued: number
  active: Turn | null
  items: Turn[]
  next_cursor: string | null
}

export interface Budget {
  kind: string
  holder: string
  tokens: number | null
  tokens_spent: number
  tokens_held: number
  usd: number | null
  usd_spent: number
  usd_held: number
  seconds: number | null
  started_at: string
  ends_at: string | null
  warned_at: string | null
}

export interface Policy {
  policy_id: string
  action: string
  agent_id: string | null
  origin: string
  reason: string
  created_at: string
  expires_at: string | null
  requests_per_minute?: number
  tokens_per_minute?: number
  max_tokens?: number
  allow?: string[]
  deny?: string[]
  refuse?: boolean
}

export interface ModelCall {
  call_id: string
  agent_id: string
  run_id: string | null
  upstream: string
  model: string
  streamed: boolean
  outcome: string
  status: number
  code: string
  policy_id: string
  started_at: string
  latency_ms: number
  tokens_in: number
  tokens_out: number
  cost_usd: number | null
  repeats: number
}

export interface Memory {
  ladders: Record<string, string[]>
  lessons: { diagnosis: string; action: string; cured: number; failed: number }[]
  feedback: {
    feedback_id: string
    agent_id: string
    actual_cause: string
    notes: string
    author: string
    at: string
    diagnosis: string | null
    withdrawn: boolean
  }[]
  vetoes: Veto[]
}

export interface Veto {
  diagnosis: string
  action: string
  agent_id: string | null
  reason: string
  actor: string
}

export const EVENT_KINDS = [
  'presence',
  'turn',
  'deliverable',
  'call',
  'phase',
  'approval',
  'alert',
  'policy',
  'budget',
  'run',
  'memory',
] as const
export type EventKind = (typeof EVENT_KINDS)[number]

export interface FeedEvent {
  seq: number
  kind: EventKind
  at_ms: number
  agent_id?: string
  [field: string]: unknown
}

export interface RunBudget {
  tokens_max: number | null
  tokens_spent: number
  tokens_held: number
  usd_max: number | null
  usd_spent: number
  usd_held: number
  seconds_max: number | null
  seconds_spent: number
  warned: boolean
  forecast: string | null
  reached_in_seconds: number | null
}

export interface Run {
  run_id: string
  goal: string
  status: string
  moved: { actor: string; reason: string; at: string }
  version: number
  trace_id: string
  seed: number
  planner: string
  planner_name: string
  paused_by: string | null
  at_rest: boolean
  tasks: Record<string, number>
  waits_for: string[]
  parallel: number
  budget: RunBudget
  created_at: string
  created_by: string
  ledger_entries: number
  ledger_hash: string
  error: unknown
}

export interface Task {
  name: string
  number: number
  status: string
  target: string
  after: string[]
  attempt: number
  retries: number
  turn_id: string | null
  agent_id: string | null
  started_at: string | null
  ended_at: string | null
  approval: boolean
  approved_by: string | null
  error: unknown
  result?: unknown
}

export interface LedgerEntry {
  seq: number
  kind: string
  at?: string
  at_ms?: number
  payload: unknown
  hash: string
}

export interface Replay {
  mode?: string
  verdict: string
  turns: number
  entries: number
  live_calls: number
  divergence: { seq: number; message: string; recorded: string; now: string } | null
  changed_code: string[]
  skipped: string[]
}

export interface Receipt {
  verb: string
  reason: string
  actor: string
  asked_at: string
  read_at: string
  effect: 'enforced' | 'unverified' | 'failed'
  strategies: {
    strategy: string
    wanted: string
    effect: 'enforced' | 'unverified' | 'failed'
    note: string
    checked_at: string | null
    gaps_count: number
  }[]
  requests_refused: number
  requests_answered: number
  tokens_spent: number
}

export interface Act {
  seq: number
  at: string
  actor: string
  verb: string
  object: string
  project: string
  outcome: string
  reason: string
  changes: unknown
  trace_id: string
  of_seq: number | null
  digest: string
}
