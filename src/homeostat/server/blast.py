"""What an order would reach, told before it is given."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from homeostat.core.clock import rfc3339
from homeostat.core.codec import malformed
from homeostat.core.errors import AgentUnknown, TurnUnknown
from homeostat.core.ids import AgentId, ProjectId, RunId
from homeostat.core.limits import NAME_CHARS_MAX, PAGE_MAX
from homeostat.core.machines.run import RUN
from homeostat.core.machines.task import TaskStatus
from homeostat.core.records.immune import Approval, ApprovalId
from homeostat.core.records.policy import Action
from homeostat.core.records.run import Run, Task
from homeostat.core.records.turn import AgentKey
from homeostat.core.remedy_rules import rules_of
from homeostat.core.run_errors import RunFinished
from homeostat.core.wire import orders as w
from homeostat.core.wire.operations import DrillBody
from homeostat.core.wire.runs import ButtonBody
from homeostat.immune.errors import ApprovalUnknown
from homeostat.runs.standing import counted
from homeostat.server import names
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import Endpoint

MICROS: Final = 1_000_000
CALLS_TRIED_MAX: Final = 1_000  # of an agent's log, newest first
SHOWN_MAX: Final = 50
DONE_TO_RUNS: Final = {"pause": "be paused", "kill": "be killed"}
"""Runs, and agents, that a rehearsal shows one by one; of the rest it tells how many they are."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Whom an order would reach."""

    agents: tuple[AgentKey, ...] = ()
    runs: tuple[Run, ...] = ()


Reach = Callable[[Call], Awaitable[Reached]]


@dataclass(frozen=True, slots=True)
class Effect:
    """What an order does, what undoes it, and how to find whom it would reach."""

    does: str
    undo: str
    reach: Reach
    try_on: Callable[[Call], Awaitable[str]] | None = None  # the logged past, and what it would have been


async def _named_agent(call: Call) -> Reached:
    return Reached(agents=(names.agent_key(call),))


async def _drilled_agent(call: Call) -> Reached:
    """Whoever could not be drilled is refused here, too."""
    try:
        body = msgspec.json.decode(await call.read(), type=DrillBody)
    except msgspec.MsgspecError as problem:
        raise malformed(problem, shape=DrillBody) from problem
    key = names.agent_key(call)
    await call.system.immune.drills.check(key, body.kind)
    return Reached(agents=(key,))


async def _turns_agent(call: Call) -> Reached:
    turn_id = names.turn_id(call.parameters["turn_id"])
    view = await call.system.kernel.store.turn(call.project, turn_id)
    if view is None:
        raise TurnUnknown(turn_id=turn_id)
    return Reached(agents=(view.turn.key,))


async def _approvals_agent(call: Call) -> Reached:
    found = await _approval(call)
    return Reached(agents=((found.project, found.agent_id),))


async def _approval(call: Call) -> Approval:
    approval_id = ApprovalId(call.parameters["approval_id"][:NAME_CHARS_MAX])
    found = await call.system.immune.store.approval(call.project, approval_id)
    if found is None:
        raise ApprovalUnknown(approval_id=approval_id)
    return found


async def _cure_on_the_past(call: Call) -> str:
    """What the rules of a treatment would have done to the agent's own logged calls."""
    asked, gateway = await _approval(call), call.system.gateway
    rules = rules_of((asked.project, asked.agent_id), asked.action, reason=asked.why, now=call.system.clock.now_ms())
    tried = [
        (rule.action, await gateway.rehearse(rule, since_ms=0, limit=CALLS_TRIED_MAX))
        for rule in rules
        if rule.action is not Action.CLEAR_CONTEXT  # it asks the agent, and refuses nothing
    ]
    told = [
        f"as a {action.replace('_', ' ')} it would have refused {done.refused} and trimmed {done.trimmed}"
        for action, done in tried
    ]
    return f"Of its last {tried[0][1].seen} calls, {'; '.join(told)}." if tried else ""


async def _named_run(call: Call) -> Reached:
    """The run, and the agents that work on its tasks right now."""
    run = await call.system.runs.get(call.project, RunId(call.parameters["run_id"][:NAME_CHARS_MAX]))
    if run.status in RUN.final:
        moved = run.moved
        raise RunFinished(
            run_id=run.run_id,
            state=run.status,
            at=rfc3339(moved.at_ms),
            actor=moved.actor,
            reason=moved.reason,
            verb=DONE_TO_RUNS[str(call.scope["path"]).rpartition("/")[2]],
        )
    return Reached(await _working(call, run), (run,))


async def _tasks_run(call: Call) -> Reached:
    """The run of a task that waits for approval; of one that waits for none, its answer is told."""
    run, _ = await _held_task(call)
    return Reached(runs=(run,))


async def _held_task(call: Call) -> tuple[Run, Task]:
    runs = call.system.runs
    run = await runs.get(call.project, RunId(call.parameters["run_id"][:NAME_CHARS_MAX]))
    return run, await runs.control.held(run, names.word_in(call, "task"))


async def _who_gets_the_task(call: Call) -> str:
    _, task = await _held_task(call)
    return f"Task {task.spec.name!r} is for {task.spec.target}."


async def _runs_under_the_button(call: Call) -> Reached:
    try:
        body = msgspec.json.decode(await call.read() or b"{}", type=ButtonBody)
    except msgspec.MsgspecError as problem:
        raise malformed(problem, shape=ButtonBody) from problem
    store, found, after = call.system.runs.store, list[Run](), None
    while page := await store.alive(ProjectId(body.project or "") or None, after=after, limit=PAGE_MAX):
        found += page
        after = page[-1].run_id
    agents = [key for run in found[:SHOWN_MAX] for key in await _working(call, run)]
    return Reached(tuple(dict.fromkeys(agents)), tuple(found))


async def _working(call: Call, run: Run) -> tuple[AgentKey, ...]:
    tasks = await call.system.runs.store.tasks(run.run_id, after=-1, status=TaskStatus.RUNNING, limit=PAGE_MAX)
    return tuple(dict.fromkeys((run.project, task.agent_id) for task in tasks if task.agent_id is not None))


EFFECTS: Final[Mapping[str, Effect]] = {
    "quarantine_agent": Effect(
        "The turn under way ends soon or goes back to the queue; model calls are refused; messages wait.",
        "homeostat release",
        _named_agent,
    ),
    "kill_agent": Effect(
        "The turn under way goes back to the queue, the agent's process is ended; messages wait in the inbox.",
        "homeostat release, once the agent runs again",
        _named_agent,
    ),
    "release_agent": Effect(
        "The agent gets its turns and model calls back untreated; probation watches it.",
        "homeostat quarantine",
        _named_agent,
    ),
    "heal_agent": Effect(
        "The agent is treated for its likeliest illness now; probation shows whether it helped.",
        "homeostat quarantine",
        _named_agent,
    ),
    "lift_treatments": Effect(
        "Rules of the gateway end at once; the agent is made anew, without the remedies, before its next turn.",
        "homeostat heal, which treats it again",
        _named_agent,
    ),
    "drill_agent": Effect(
        "A fault is pretended; the agent is isolated for some seconds and its messages wait; nothing is treated.",
        "It lets the agent out by itself.",
        _drilled_agent,
    ),
    "deregister": Effect(
        "The agent's key opens nothing any more; its queue stays.",
        "Register it again with its id and its key.",
        _named_agent,
    ),
    "cordon_agent": Effect(
        "No new turns; the one under way goes on, messages wait in the inbox.", "homeostat uncordon", _named_agent
    ),
    "drain_agent": Effect(
        "No new turns; the one under way ends, messages wait in the inbox.", "homeostat uncordon", _named_agent
    ),
    "stop_turn": Effect(
        "The turn ends at once, with a deliverable that says so.", "It cannot be undone; send it again.", _turns_agent
    ),
    "requeue_turn": Effect(
        "Whoever works on the turn is cut off; it goes back to the front of the line, and stored steps are kept.",
        "It cannot be undone; homeostat cordon keeps it in the line.",
        _turns_agent,
    ),
    "approve": Effect(
        "The treatment is tried once; probation shows whether it helped.",
        "homeostat quarantine",
        _approvals_agent,
        _cure_on_the_past,
    ),
    "reject": Effect(
        "The treatment is not tried; the agent stays isolated until somebody heals or releases it.",
        "homeostat heal, or release",
        _approvals_agent,
    ),
    "pause_run": Effect(
        "Tasks that run may end, no other begins; with force their turns go back to the queue.",
        "homeostat resume",
        _named_run,
    ),
    "kill_run": Effect(
        "No task starts any more, running turns are stopped, model calls are refused.",
        "It cannot be undone; begin it again.",
        _named_run,
    ),
    "approve_task": Effect(
        "The task is given to whom it is for; a run that is held for it goes on.",
        "It cannot be undone; homeostat pause holds the run.",
        _tasks_run,
        _who_gets_the_task,
    ),
    "reject_task": Effect(
        "The task fails without being tried; a run that is held for it goes on, or fails with it.",
        "It cannot be undone; begin the run again.",
        _tasks_run,
        _who_gets_the_task,
    ),
    "press_button": Effect(
        "Every run is killed, and none begins.",
        "homeostat red-button --lift lets runs begin again; what was killed stays killed",
        _runs_under_the_button,
    ),
}
"""The orders that can be rehearsed here."""


async def blast(call: Call, endpoint: Endpoint) -> Answer:
    """Whom an order would reach, and what they have in hand."""
    effect = EFFECTS[endpoint.name]
    reached = await effect.reach(call)
    agents, runs = reached.agents[:SHOWN_MAX], reached.runs[:SHOWN_MAX]
    shape = w.BlastShape(
        dry_run=True,
        verb=endpoint.name,
        effect=effect.does,
        undo=effect.undo,
        agents=[await _agent(call, key) for key in agents],
        runs=[await _run(call, run) for run in runs],
        more=len(reached.agents) - len(agents) + len(reached.runs) - len(runs),
        rehearsal="" if effect.try_on is None else await effect.try_on(call),
    )
    return Answer(endpoint.status, msgspec.json.encode(shape))


async def _agent(call: Call, key: AgentKey) -> w.ReachShape:
    system = call.system
    view = await system.kernel.store.head(*key)
    if view is None:
        raise AgentUnknown(agent_id=key[1], project=key[0])
    return w.ReachShape(
        agent_id=AgentId(key[1]),
        phase=system.immune.phase_of(key),
        gate=view.head.gate,
        active_turn_id=view.head.turn_id,
        queued=view.head.queued,
        open_calls=await system.gateway.in_flight(key),
    )


async def _run(call: Call, run: Run) -> w.RunReachShape:
    spending = await call.system.runs.spending(run)
    return w.RunReachShape(
        run_id=run.run_id,
        goal=run.config.goal,
        status=run.status,
        tasks=await counted(call.system.runs.store, run),
        usd_spent=spending.spent.micros / MICROS,
    )
