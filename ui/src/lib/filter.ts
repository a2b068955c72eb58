// The one filter grammar, as docs/reference/filters.md tells it: `phase:quarantined tag:gpu -type:bot cost>2 started>-1h words`.
// Lists of the server take it as `?q=`; here it is for what is on this page already.
// Terms are joined by "and"; values of one term by commas, as "or"; a dash in front turns a term round.

export type Fields = Record<string, string | number | string[] | null | undefined>

export interface Term {
  field: string | null
  operator: ':' | '>' | '<' | '>=' | '<='
  values: string[]
  negated: boolean
}

const TERM = /^([-!]?)([a-z_]+)(!=|>=|<=|:|=|>|<)(.+)$/i
const SPAN = /^\$?(-?\d+(?:\.\d+)?)(ms|s|m|h|d|k)?$/
const SCALES: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400, k: 1000 }

export function parse(text: string): Term[] {
  return split(text).map((word) => {
    const found = TERM.exec(word)
    if (!found) {
      const negated = word.startsWith('-') && word.length > 1
      return { field: null, operator: ':', values: [bare(negated ? word.slice(1) : word)], negated }
    }
    const [, minus, field, operator, value] = found
    return {
      field: (field ?? '').toLowerCase(),
      operator: operator === '=' || operator === '!=' ? ':' : (operator as Term['operator']),
      values: (value ?? '').split(',').map(bare).filter(Boolean),
      negated: (minus !== '') !== (operator === '!='),
    }
  })
}

function split(text: string): string[] {
  return text.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? []
}

function bare(word: string): string {
  return word.replaceAll('"', '').toLowerCase()
}

// Numbers may have a unit of time: `seen<5m` is in seconds.
export function quantity(text: string): number | null {
  const found = SPAN.exec(text)
  return found ? Number(found[1]) * (found[2] ? (SCALES[found[2]] ?? 1) : 1) : null
}

export function matches(terms: Term[], fields: Fields, searched: string[]): boolean {
  return terms.every((term) => term.negated !== holds(term, fields, searched))
}

function holds(term: Term, fields: Fields, searched: string[]): boolean {
  if (term.field === null) {
    const wanted = term.values[0] ?? ''
    return searched.some((name) => texts(fields[name]).some((text) => text.includes(wanted)))
  }
  const value = fields[term.field]
  if (term.operator === ':') {
    const found = texts(value)
    if (term.values.includes('none') && !found.length) return true
    if (typeof value === 'number') return term.values.some((wanted) => quantity(wanted) === value)
    return term.values.some((wanted) => (wanted.includes('*') ? found.some((one) => fits(one, wanted)) : found.includes(wanted)))
  }
  const bound = quantity(term.values[0] ?? '')
  if (typeof value !== 'number' || bound === null) return false
  if (term.operator === '>') return value > bound
  if (term.operator === '<') return value < bound
  return term.operator === '>=' ? value >= bound : value <= bound
}

// A star stands for anything.
function fits(text: string, pattern: string): boolean {
  const [first = '', ...rest] = pattern.split('*')
  if (!text.startsWith(first)) return false
  const last = rest.pop() ?? ''
  let from = first.length
  for (const part of rest) {
    const at = text.indexOf(part, from)
    if (at < 0) return false
    from = at + part.length
  }
  return text.length - last.length >= from && text.endsWith(last)
}

function texts(value: Fields[string]): string[] {
  if (value == null) return []
  return (Array.isArray(value) ? value : [value]).map((one) => String(one).toLowerCase())
}

// Put a term in, or take it out if it is there: what a click on a chip does.
export function toggled(text: string, term: string): string {
  const terms = split(text)
  return (terms.includes(term) ? terms.filter((one) => one !== term) : [...terms, term]).join(' ')
}

export function unknownFields(terms: Term[], known: string[]): string[] {
  return terms.flatMap((term) => (term.field !== null && !known.includes(term.field) ? [term.field] : []))
}

export function quoted(value: string): string {
  return /[\s",]/.test(value) ? `"${value.replaceAll('"', '')}"` : value
}
