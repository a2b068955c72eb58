// The vital signs of an agent, as they are drawn.

import { count, millis, percent, usd } from './format'
import type { Incident, VitalsSample } from './types'

type Evidence = Incident['evidence'][number]

export interface Gauge {
  name: keyof VitalsSample
  vital: string
  title: string
  format: (value: number) => string
}

export const GAUGES: Gauge[] = [
  { name: 'latency_ms', vital: 'latency_ms', title: 'Latency', format: millis },
  { name: 'tokens_in', vital: 'tokens_in', title: 'Tokens in', format: count },
  { name: 'tokens_out', vital: 'tokens_out', title: 'Tokens out', format: count },
  { name: 'cost_usd', vital: 'cost_usd', title: 'Cost per call', format: usd },
  { name: 'tool_calls', vital: 'tool_calls', title: 'Tool calls', format: count },
  { name: 'error', vital: 'error_rate', title: 'Errors', format: (value) => percent(value) },
]

const ALWAYS = ['latency_ms', 'cost_usd']

// What somebody who is asked wants to see: the vitals that were off, beside the two that everybody asks about.
export function telling(evidence: Evidence[]): Gauge[] {
  const off = new Set(evidence.map((one) => one.vital))
  return GAUGES.filter((gauge) => off.has(gauge.vital) || ALWAYS.includes(gauge.vital))
}

export function times(samples: VitalsSample[]): number[] {
  return samples.map((sample) => Date.parse(sample.at) / 1000)
}

export function series(samples: VitalsSample[], name: keyof VitalsSample): (number | null)[] {
  return samples.map((sample) => (sample[name] === null ? null : Number(sample[name])))
}

// When a vital was off, for its chart.
export function marked(evidence: Evidence[], vital: string): { at: number; why: string }[] {
  return evidence.filter((one) => one.vital === vital).map((one) => ({ at: Date.parse(one.at) / 1000, why: one.why }))
}
