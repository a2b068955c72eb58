"""The rules on a desk: decide and save commands by hand, without an event loop, and look at what they wrote."""

from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from homeostat.core.clock import Millis
from homeostat.core.codec import NULL, Json, to_json
from homeostat.core.errors import HomeostatError
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, Chance, Ids, ToolCallId, TurnId, WorkerId
from homeostat.core.records.card import Card
from homeostat.core.records.event import Event
from homeostat.core.records.head import Head, Mailbox
from homeostat.core.records.turn import AfterExecution, AgentKey, Grant, MessageType, ToolCall, Wait, WaitStatus
from homeostat.core.records.view import Deliverable, Outcome, TurnView
from homeostat.core.records.work import Delivered, Fence, Suspended, fence_of
from homeostat.core.records.writes import OutboxRow, Saved, Writes
from homeostat.kernel import commands as c
from homeostat.kernel.decide import Decision, Pending
from homeostat.kernel.plan import Plan
from homeostat.testing.clock import ManualClock
from homeostat.testing.memory import MemoryTurns

T = TypeVar("T")

LEASE_MS = 10_000


def complete(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("this was not supposed to wait")


def key_of(agent: str) -> AgentKey:
    return (DEFAULT_PROJECT, AgentId(agent))


def call(call_id: str, seconds: float = 60.0, after: AfterExecution = AfterExecution.SUSPEND) -> ToolCall:
    """A tool call to wait for."""
    return ToolCall(ToolCallId(call_id), "search", Json("{}"), seconds, after)


class Desk:
    """A store in memory, a clock by hand, and the rules in between."""

    def __init__(self, *agents: str, store: MemoryTurns | None = None) -> None:
        self.clock = ManualClock()
        self.store = store or MemoryTurns()
        self.ids = Ids(clock=self.clock, entropy=Chance(1))
        self.leases: dict[WorkerId, Millis] = {}
        self.plan = self._plan()
        self.events: list[Event] = []
        for agent in agents:
            self.do(c.Register(key=key_of(agent)))

    def _plan(self) -> Plan:
        now, closed, held = self.clock.now_ms(), self.store.closed_runs, self.store.held_runs
        return Plan(now=now, ids=self.ids, lease_ms=LEASE_MS, leases=self.leases, closed_runs=closed, held_runs=held)

    # --- deciding and saving -------------------------------------------------------------------------------

    def load(self, *agents: str) -> Plan:
        """A plan with these mailboxes on it, for a rule to be tried by hand."""
        plan = self._plan()
        for key, mailbox in complete(self.store.load([key_of(agent) for agent in agents])).items():
            plan.mailboxes[key] = mailbox
            plan.base[key] = mailbox.head.version
        return plan

    def decide(self, *commands: c.Command, known: Mapping[AgentKey, Mailbox] | None = None) -> list[Any]:
        """Decide a batch; answers and errors in order. Nothing is saved: `plan` has what would be."""
        self.plan = self._plan()
        batch = [Pending(command) for command in commands]
        complete(Decision(self.plan, self.store, known or {}).decide(batch))
        return [pending.answer for pending in batch]

    def save(self) -> Saved:
        """Save what was decided last."""
        plan = self.plan
        if plan.events:
            plan.writes.outbox = OutboxRow(self.ids.scope(), tuple(plan.events))
            self.events += plan.events
        return complete(self.store.save(plan.writes))

    def all(self, *commands: c.Command) -> list[Any]:
        """Decide and save a batch that shares one commit."""
        answers = self.decide(*commands)
        assert self.save().ok
        return answers

    def do(self, command: c.Command) -> Any:
        """Decide and save one command; raises its error."""
        (answer,) = self.all(command)
        if isinstance(answer, HomeostatError):
            raise answer
        return answer

    @property
    def writes(self) -> Writes:
        return self.plan.writes

    # --- the protocol's verbs ------------------------------------------------------------------------------

    def message(self, agent: str, **changes: Any) -> c.Enqueue:
        said: dict[str, Any] = {"type": MessageType.TURN, "payload": Json("{}"), **changes}
        return c.Enqueue(key=key_of(agent), **said)

    def enqueue(self, agent: str, **changes: Any) -> TurnId:
        return self.do(self.message(agent, **changes)).turn_id

    def claim(self, agent: str, worker: str = "wrk_1") -> Grant:
        grant = self.do(c.Claim(key=key_of(agent), worker_id=WorkerId(worker)))
        assert isinstance(grant, Grant), "nothing was there to claim"
        return grant

    def begin(self, agent: str, worker: str = "wrk_1", **changes: Any) -> Grant:
        """Enqueue a message and enter its turn."""
        self.enqueue(agent, **changes)
        return self.claim(agent, worker)

    def suspend(self, grant: Grant, *calls: ToolCall, **changes: Any) -> Suspended:
        return self.do(c.Suspend(fence=fence_of(grant), calls=calls, **changes))

    def report(self, grant: Grant, call_id: str, result: object = None, **changes: Any) -> c.Reported:
        return self.do(self.result(grant, call_id, result, **changes))

    @staticmethod
    def result(grant: Grant, call_id: str, result: object = None, **changes: Any) -> c.Report:
        said: dict[str, Any] = {"type": MessageType.TOOL_RESULT, "status": WaitStatus.SUCCESS, **changes}
        return c.Report(
            key=grant.turn.key,
            turn_id=grant.turn.turn_id,
            call_id=ToolCallId(call_id),
            result=to_json(result),
            **said,
        )

    def deliver(self, grant: Grant, result: Json = NULL, **changes: Any) -> Delivered:
        said: dict[str, Any] = {"status": Outcome.SUCCESS, **changes}
        return self.do(c.Deliver(fence=fence_of(grant), result=result, **said))

    def stop(self, turn_id: TurnId) -> c.Stopped:
        return self.do(c.Stop(turn=self.store.turns[turn_id], reason="enough", actor="ann"))

    def recover(self, agent: str) -> bool:
        """Take an agent's turn from its worker."""
        head = self.head(agent)
        assert head.turn_id is not None
        assert head.worker_id is not None
        fence = Fence(head.key, head.turn_id, head.epoch, head.worker_id)
        return self.do(c.Recover(fence=fence, cause="its worker was silent"))

    # --- looking -------------------------------------------------------------------------------------------

    def head(self, agent: str) -> Head:
        return self.store.heads_by_key[key_of(agent)]

    def mailbox(self, agent: str) -> Mailbox:
        return complete(self.store.load([key_of(agent)]))[key_of(agent)]

    def view(self, turn_id: TurnId) -> TurnView:
        view = complete(self.store.turn(DEFAULT_PROJECT, turn_id))
        assert view is not None
        return view

    def deliverable(self, turn_id: TurnId) -> Deliverable | None:
        return self.store.end_of(DEFAULT_PROJECT, turn_id)

    def wait(self, turn_id: TurnId, call_id: str) -> Wait:
        return self.store.waits[turn_id][ToolCallId(call_id)]

    def cards(self, turn_id: TurnId) -> list[Card]:
        scope = turn_id.removeprefix("turn_")
        return [card for where, cards in self.store.cards.items() if where == scope for card in cards.values()]
