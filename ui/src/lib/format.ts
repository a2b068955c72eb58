// Numbers and times as people read them. Every figure carries its unit, on the same line: the space between is unbroken.

const NONE = '–'

export function seconds(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NONE
  const s = Math.max(0, value)
  if (s > 0 && s < 1) return `${Math.max(0.1, s).toFixed(1)}\u00a0s`
  if (s < 100) return `${Math.round(s)}\u00a0s`
  if (s < 6000) return `${Math.round(s / 60)}\u00a0min`
  if (s < 172_800) return `${Math.round(s / 3600)}\u00a0h`
  return `${Math.round(s / 86_400)}\u00a0d`
}

export function age(instant: string | null | undefined, now: number): string {
  if (!instant) return NONE
  const then = Date.parse(instant)
  return Number.isNaN(then) ? NONE : seconds(Math.max(0, Math.round((now - then) / 1000)))
}

export function left(instant: string | null | undefined, now: number): string {
  if (!instant) return NONE
  const rest = (Date.parse(instant) - now) / 1000
  return rest <= 0 ? 'over' : seconds(rest)
}

export function count(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NONE
  const size = Math.abs(value)
  if (size >= 1e9) return `${trim(value / 1e9)}\u00a0G`
  if (size >= 1e6) return `${trim(value / 1e6)}\u00a0M`
  if (size >= 1e4) return `${trim(value / 1e3)}\u00a0k`
  return Number.isInteger(value) ? value.toLocaleString('en-US') : trim(value)
}

function trim(value: number): string {
  const text = Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3)
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}

export function usd(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NONE
  if (value === 0) return '$0'
  if (Math.abs(value) < 0.01) return `$${value.toPrecision(2)}`
  if (Math.abs(value) < 0.1) return `$${Number(value.toPrecision(2))}`
  if (Math.abs(value) < 1000) return `$${value.toFixed(2)}`
  return `$${count(value)}`
}

export function millis(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NONE
  return value < 1000 ? `${trim(Math.round(value))}\u00a0ms` : `${trim(value / 1000)}\u00a0s`
}

export function percent(share: number | null | undefined): string {
  if (share == null || !Number.isFinite(share)) return NONE
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)}\u00a0%`
}

export function words(name: string): string {
  return name.replaceAll('_', ' ')
}

export function clock(instant: string | number | null | undefined): string {
  if (instant == null) return NONE
  const date = new Date(instant)
  return Number.isNaN(date.getTime()) ? NONE : date.toLocaleTimeString('en-GB')
}

export function day(instant: string | null | undefined): string {
  if (!instant) return NONE
  const date = new Date(instant)
  if (Number.isNaN(date.getTime())) return NONE
  return `${date.toLocaleDateString('en-CA')} ${date.toLocaleTimeString('en-GB')}`
}

// One line of JSON, cut: payloads are as long as their senders like.
export function brief(value: unknown, length = 120): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  return text.length > length ? `${text.slice(0, length - 1)}…` : text
}

export function whole(number: number): string {
  return number.toLocaleString('en-US')
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${whole(number)} ${number === 1 ? one : many}`
}
