// Server-sent events out of a stream of text, however it is cut.

export interface Message {
  id: string | null
  event: string
  data: string
}

export class EventParser {
  #rest = ''
  #id: string | null = null
  #event = 'message'
  #data: string[] = []

  push(chunk: string): Message[] {
    const lines = (this.#rest + chunk).split(/\r\n|\n|\r/)
    this.#rest = lines.pop() ?? ''
    const found: Message[] = []
    for (const line of lines) {
      if (line === '') {
        if (this.#data.length) found.push({ id: this.#id, event: this.#event, data: this.#data.join('\n') })
        this.#event = 'message'
        this.#data = []
        continue
      }
      const colon = line.indexOf(':')
      const name = colon < 0 ? line : line.slice(0, colon)
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
      if (name === 'id') this.#id = value
      else if (name === 'event') this.#event = value
      else if (name === 'data') this.#data.push(value)
    }
    return found
  }
}
