// Tasks of runs that wait for somebody's word: they are approvals, too, though the server lists them with their runs.

import { acts } from './acts.svelte'
import { get, send } from './api'
import { live } from './live.svelte'
import { Remote } from './remote.svelte'
import type { Run, Task } from './types'

export interface WaitingTask {
  run: Run
  task: Task
}

const RUNS_MAX = 20

async function read(signal: AbortSignal): Promise<WaitingTask[]> {
  const { runs } = await get<{ runs: Run[] }>('v1/runs', { status: 'paused', q: 'paused_by:gate', limit: RUNS_MAX }, signal)
  const found = await Promise.all(
    runs.map(async (run) => {
      const path = `v1/runs/${encodeURIComponent(run.run_id)}/tasks`
      const { tasks } = await get<{ tasks: Task[] }>(path, { q: 'status:held approval:yes', limit: 50 }, signal)
      return tasks.map((task) => ({ run, task }))
    }),
  )
  return found.flat()
}

class WaitingTasks {
  #remote = new Remote<WaitingTask[]>(read)

  get list(): WaitingTask[] {
    return this.#remote.data ?? []
  }

  refresh(): void {
    this.#remote.refresh()
  }

  start(): () => void {
    void this.#remote.load()
    const refresh = () => this.#remote.refresh()
    const off = live.on(['run'], refresh, refresh)
    return () => {
      off()
      this.#remote.stop()
    }
  }
}

export const waiting = new WaitingTasks()

export function askTask(answer: 'approve' | 'reject', runId: string, task: Task, then: () => void = () => undefined): void {
  const allow = answer === 'approve'
  acts.ask({
    title: `${allow ? 'Allow' : 'Forbid'} the task ${task.name}?`,
    effect: allow ? 'It begins as soon as it may.' : 'It fails.',
    verb: allow ? 'Allow' : 'Forbid',
    danger: !allow,
    needsReason: !allow,
    run: async (reason) => {
      await acts.attempt(`${answer} ${task.name}`, async () => {
        const path = `v1/runs/${encodeURIComponent(runId)}/tasks/${encodeURIComponent(task.name)}/${answer}`
        await send('POST', path, { reason, actor: 'dashboard' })
        waiting.refresh()
        then()
      })
    },
  })
}
