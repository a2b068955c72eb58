"""The simulator can fail: well-known mistakes are planted in the kernel, and a few dozen seeds find each of them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from homeostat.app.local_turns import LocalSession
from homeostat.core.errors import StaleEpoch
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.head import Head, Mailbox
from homeostat.core.records.run import Start
from homeostat.core.records.turn import AgentKey, Grant, MessageType
from homeostat.core.records.view import Due, Hydration
from homeostat.core.records.work import Fence
from homeostat.core.records.writes import Writes
from homeostat.kernel import boxes
from homeostat.kernel import commands as c
from homeostat.kernel.decide import Decision
from homeostat.kernel.plan import Plan
from homeostat.kernel.rules import RULES
from homeostat.kernel.watchdog import Watchdog
from homeostat.kernel.workers import Workers
from homeostat.testing.memory import MemoryTurns
from homeostat.testing.simulation.run import simulate
from homeostat.testing.simulation.store import RemoteStore

SEEDS_MAX = 400
Patch = pytest.MonkeyPatch


def rule(patch: Patch, command: type, planted: Callable[[Any, Plan, Any, Any], object]) -> None:
    """Put something around the rule of a command."""
    original = RULES[command]
    patch.setitem(
        RULES,
        command,
        lambda plan, asked, followups: planted(original, plan, asked, followups),
    )


def without_new_epoch(original: Any, plan: Plan, asked: Any, followups: Any, key: AgentKey) -> object:
    before = plan.mailbox(key).head
    answer = original(plan, asked, followups)
    mailbox = plan.mailbox(key)
    if mailbox.head.status is HeadStatus.DISPATCHED and mailbox.head.turn_id == before.turn_id:
        plan.put(replace(mailbox, head=replace(mailbox.head, epoch=before.epoch)))
    return answer


def enqueue_without_swapping_the_head(patch: Patch) -> None:
    """Enqueue sees a busy agent, delivery sees an empty queue, both commit."""

    def planted(original: Any, plan: Plan, asked: c.Enqueue, followups: Any) -> object:
        busy = plan.mailbox(asked.key).head.status is not HeadStatus.IDLE and asked.key not in plan.writes.heads
        answer = original(plan, asked, followups)
        if busy:
            del plan.writes.heads[asked.key]
        return answer

    rule(patch, c.Enqueue, planted)


def doorbells_only(patch: Patch) -> None:
    """Nobody looks for itself, and nothing is announced a second time."""

    async def blind(*_: object) -> None: ...

    def silent(*_: object) -> None: ...

    patch.setattr(Workers, "_look", blind)
    patch.setattr(Watchdog, "_ring", silent)


def no_new_epoch_on_recovery(patch: Patch) -> None:
    rule(patch, c.Recover, lambda o, p, asked, f: without_new_epoch(o, p, asked, f, asked.fence.key))


def no_new_epoch_on_resume(patch: Patch) -> None:
    rule(patch, c.Report, lambda o, p, asked, f: without_new_epoch(o, p, asked, f, asked.key))


def no_fence(patch: Patch) -> None:
    """A worker that names the right turn is believed, whatever its epoch."""

    def held(self: Plan, fence: Fence) -> Mailbox:
        mailbox = self.mailbox(fence.key)
        if mailbox.head.turn_id != fence.turn_id or mailbox.head.status is not HeadStatus.RUNNING:
            raise StaleEpoch(turn_id=fence.turn_id, worker_id=fence.worker_id, epoch=fence.epoch)
        return mailbox

    patch.setattr(Plan, "held", held)


def publish_without_outbox(patch: Patch) -> None:
    """The terminal event dies with the process that would have published it."""
    original = MemoryTurns._apply

    def apply(self: MemoryTurns, writes: Writes) -> None:
        row, writes.outbox = writes.outbox, None
        original(self, writes)
        writes.outbox = row

    patch.setattr(MemoryTurns, "_apply", apply)


def enqueue_again_instead_of_ringing_again(patch: Patch) -> None:
    """A stuck turn is sent once more as a new row."""

    def ring(self: Watchdog, due: Due) -> None:
        store = self._store
        assert isinstance(store, RemoteStore)
        memory = store._world.memory
        for key, _ in due.unclaimed:
            turn_id = memory.heads_by_key[key].turn_id
            if turn_id is not None:
                payload = memory.turns[turn_id].payload
                future = self._flusher.submit(c.Enqueue(key=key, type=MessageType.TURN, payload=payload))
                future.add_done_callback(asyncio.Future.exception)

    patch.setattr(Watchdog, "_ring", ring)


def refuse_from_memory(patch: Patch) -> None:
    """A decision that swaps nothing is given on a mailbox that may be old."""

    async def reconsider(self: Decision, _: object) -> None:
        await self._follow()

    patch.setattr(Decision, "_reconsider", reconsider)


def believe_leases_from_the_future(patch: Patch) -> None:
    """A lease is judged by the wall clock alone: one written a day ahead is good for a day."""
    original = MemoryTurns.due

    async def due(self: MemoryTurns, now: Any, **rest: Any) -> Due:
        rest["lease_ms"] = 1 << 50
        return await original(self, now, **rest)

    patch.setattr(MemoryTurns, "due", due)


def forget_first_answers(patch: Patch) -> None:
    """A repeated key is a new request."""
    original = MemoryTurns._apply

    def apply(self: MemoryTurns, writes: Writes) -> None:
        writes.answers.clear()
        original(self, writes)

    patch.setattr(MemoryTurns, "_apply", apply)


def hydrate_nothing(patch: Patch) -> None:
    """A recovered turn starts over, stored steps or not."""

    async def hydrate(self: LocalSession, grant: Grant) -> Hydration:
        return await self._kernel.hydrate(replace(grant, fresh=True))

    patch.setattr(LocalSession, "hydrate", hydrate)


def lose_the_replies_of_joined_turns(patch: Patch) -> None:
    async def follow(self: Decision) -> None:
        self._plan.followups.clear()

    patch.setattr(Decision, "_follow", follow)


def claim_behind_closed_gates(patch: Patch) -> None:
    def planted(original: Any, plan: Plan, asked: c.Claim, followups: Any) -> object:
        mailbox = plan.mailbox(asked.key)
        gate = mailbox.head.gate
        plan.mailboxes[asked.key] = replace(mailbox, head=replace(mailbox.head, gate="open"))
        answer = original(plan, asked, followups)
        after: Head = plan.mailbox(asked.key).head
        if answer is None:
            plan.mailboxes[asked.key] = mailbox
        else:
            plan.put(replace(plan.mailbox(asked.key), head=replace(after, gate=gate)))
        return answer

    rule(patch, c.Claim, planted)

    async def dispatched(self: MemoryTurns, agents: Any, limit: int) -> list[AgentKey]:
        heads = [self.heads_by_key.get(key) for key in sorted(agents)]
        return [head.key for head in heads if head and head.status is HeadStatus.DISPATCHED][:limit]

    patch.setattr(MemoryTurns, "dispatched", dispatched)


def recover_nothing(patch: Patch) -> None:
    """A dead worker keeps its turns."""
    rule(patch, c.Recover, lambda *_: False)


def begin_what_a_killed_run_has_in_line(patch: Patch) -> None:
    """Runs are asked about when a task is made of them, and not when a turn begins or asks others."""

    def starts(self: Plan, run_id: Any, what: Start = Start.TURN) -> None:
        if what is Start.TASK:
            self.writes.runs[run_id] = what

    patch.setattr(Plan, "starts", starts)


def make_turns_of_killed_runs(patch: Patch) -> None:
    """The store asks nobody whether a run is still alive."""
    original = MemoryTurns.save

    async def save(self: MemoryTurns, writes: Writes) -> Any:
        closed, self.closed_runs = self.closed_runs, set()
        saved = await original(self, writes)
        self.closed_runs = closed
        return saved

    patch.setattr(MemoryTurns, "save", save)


def hold_runs_where_it_was_heard(patch: Patch) -> None:
    """A pause by force is kept in memory, and asked of no gate."""
    original = MemoryTurns.save

    async def save(self: MemoryTurns, writes: Writes) -> Any:
        held, self.held_runs = self.held_runs, set()
        saved = await original(self, writes)
        self.held_runs = held
        return saved

    patch.setattr(MemoryTurns, "save", save)


def beats_that_do_not_look(patch: Patch) -> None:
    """Whoever did not hear that its turn was taken away works on."""
    original = Workers.renew

    class Anything(frozenset[Fence]):
        def __contains__(self, _: object) -> bool:
            return True

    async def renew(self: Workers, *args: Any) -> frozenset[Fence]:
        await original(self, *args)
        return Anything()

    patch.setattr(Workers, "renew", renew)


def read_contexts_as_they_are(patch: Patch) -> None:
    """What is written to a box comes before whoever was pointed at it earlier."""

    async def with_context(_: object, command: c.Enqueue) -> c.Enqueue:
        return command

    patch.setattr(boxes, "with_context", with_context)


def believe_deadlines_from_the_future(patch: Patch) -> None:
    """A call that began tomorrow may take until then."""

    def nothing(*_: object) -> list[object]:
        return []

    patch.setattr(Watchdog, "_overdue", nothing)


KILLED = {"never_a_turn_of_a_killed_run_begins", "never_a_turn_of_a_killed_run_is_made"}
HELD = {"never_a_turn_of_a_held_run_begins"}

PLANTED: dict[Callable[[Patch], None], set[str]] = {
    enqueue_without_swapping_the_head: {
        "always_the_queue_is_counted",
        "always_every_open_turn_is_in_one_place",
        "AssertionError",  # of the store, as a database's check would refuse it: less than nothing waits
    },
    doorbells_only: {"finally_nothing_is_stranded"},
    no_new_epoch_on_recovery: {"always_one_active_turn_per_agent"},
    no_new_epoch_on_resume: {
        "always_one_active_turn_per_agent",
        "never_one_step_is_announced_in_different_words",
    },
    no_fence: {"never_a_worker_writes_under_an_epoch_that_is_over", "never_a_refused_command_changes_anything"},
    publish_without_outbox: {"finally_every_turn_was_announced", "finally_every_stored_step_was_announced"},
    enqueue_again_instead_of_ringing_again: {"finally_one_request_is_one_turn"},
    refuse_from_memory: {"never_a_result_is_refused_while_its_turn_waits"},
    believe_leases_from_the_future: {"finally_nothing_is_stranded"},
    believe_deadlines_from_the_future: {"finally_nothing_is_stranded"},
    forget_first_answers: {"finally_one_request_is_one_turn", "always_a_key_has_one_answer"},
    hydrate_nothing: {"never_a_stored_step_runs_twice"},
    lose_the_replies_of_joined_turns: {"always_the_end_of_a_joined_turn_is_its_parent_s_result"},
    claim_behind_closed_gates: {"always_a_closed_gate_starts_nothing"},
    recover_nothing: {"finally_nothing_is_stranded"},
    begin_what_a_killed_run_has_in_line: KILLED | HELD,
    make_turns_of_killed_runs: KILLED,
    hold_runs_where_it_was_heard: HELD,
    read_contexts_as_they_are: {"always_a_context_is_what_it_was"},
    beats_that_do_not_look: {"never_a_beat_overlooks_a_turn_that_was_taken_away"},
}


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.__name__)
def test_a_planted_bug_is_found(planted: Callable[[Patch], None], monkeypatch: Patch) -> None:
    planted(monkeypatch)
    for seed in range(SEEDS_MAX):
        outcome = simulate(seed)
        if outcome.failure is not None:
            check = outcome.failure.removeprefix("Violation: ").split(":")[0]
            assert check in PLANTED[planted], f"seed {seed}: {outcome.failure}"
            return
    pytest.fail(f"{SEEDS_MAX} seeds did not notice")
