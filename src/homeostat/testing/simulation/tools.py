"""Tool services that answer once, twice, late, wrongly, to somebody else, or never."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from homeostat.core.codec import from_json, to_json
from homeostat.core.errors import TurnUnknown, Unavailable
from homeostat.core.ids import DEFAULT_PROJECT, ToolCallId, TurnId
from homeostat.core.records.event import Event
from homeostat.core.records.turn import WaitStatus
from homeostat.kernel.commands import Idempotency, Reported
from homeostat.kernel.kernel import Kernel

if TYPE_CHECKING:
    from homeostat.testing.simulation.world import World


class Tools:
    """Everybody who is asked to do something for a turn."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._heard: set[str] = set()
        self._accepted: set[tuple[str, str]] = set()
        self._turns: list[str] = []

    def called(self, event: Event) -> None:
        """A call arrived, perhaps not for the first time."""
        world, chance = self._world, self._world.chance
        body = from_json(event.payload)
        self._turns.append(body["agent_turn_id"])
        if event.event_id in self._heard and chance.random() < 0.7:
            return
        self._heard.add(event.event_id)
        manner = chance.choices(
            ("once", "twice", "late", "on_time", "never", "foreign", "error"), (8, 3, 2, 3, 2, 1, 1)
        )[0]
        world.trace.note(f"tool hears {world.trace.short(body['agent_turn_id'])} {body['tool_call_id']}: {manner}")
        deadline = (body["deadline_ms"] - world.true_ms()) / 1000
        match manner:
            case "once":
                self._answer(body, chance.choice((0.0, 0.01, 0.5)))
            case "twice":
                delay = chance.choice((0.0, 0.1))
                self._answer(body, delay)
                self._answer(body, delay + chance.choice((0.0, 0.001, 1.0)), again=True)
            case "late":
                self._answer(body, max(0.0, deadline) + chance.uniform(0.5, 3.0))
            case "on_time":
                self._answer(body, max(0.0, deadline + chance.uniform(-0.03, 0.03)))
            case "foreign":
                other = chance.choice(self._turns)
                self._answer({**body, "agent_turn_id": other}, 0.1)
                self._answer({**body, "tool_call_id": "call_unheard_of"}, 0.1)
            case "error":
                self._answer(body, 0.1, status=WaitStatus.ERROR)
            case _:
                pass

    def _answer(
        self, body: dict[str, Any], delay: float, *, status: WaitStatus = WaitStatus.SUCCESS, again: bool = False
    ) -> None:
        world = self._world
        if delay < 120.0:  # beyond this only a clock that was off puts a deadline; nobody waits for that
            world.loop.call_later(delay, world.spawn, self._report, body, status, again, context=world.context)

    async def _report(self, body: dict[str, Any], status: WaitStatus, again: bool) -> None:  # noqa: FBT001
        world, chance = self._world, self._world.chance
        call_id = body["tool_call_id"]
        turn_id = TurnId(body["agent_turn_id"])
        tag = f"{turn_id}:{call_id}:{chance.getrandbits(32)}"
        result: dict[str, object] = {"tool_says": tag}
        if chance.random() < 0.2:
            word = chance.choice(("terminate", "suspend", "nonsense"))
            result["__cg_control"] = {"after_execution": word}
            world.trace.count("control_word")
        sent = f"{turn_id}:{call_id}" in self._heard
        key = Idempotency(f"report-{tag}", tag) if chance.random() < 0.3 else None

        def call(kernel: Kernel) -> Awaitable[Reported]:
            body = to_json(result)
            return kernel.report(
                DEFAULT_PROJECT, turn_id, ToolCallId(call_id), status=status, result=body, idempotency=key
            )

        for attempt in range(20):
            try:
                reported: Reported = await world.rpc(call)
            except TurnUnknown:
                return
            except Unavailable:
                await world.sleep(chance.uniform(0.05, 1.0))
                continue
            self._told(turn_id, call_id, reported, again=again, repeated=attempt > 0 and key is not None)
            if sent and not reported.accepted and (turn_id, ToolCallId(call_id)) in world.memory.pending:
                world.violated("never_a_result_is_refused_while_its_turn_waits", f"{turn_id} {call_id}")
            return

    def _told(self, turn_id: str, call_id: str, reported: Reported, *, again: bool, repeated: bool) -> None:
        trace = self._world.trace
        if reported.accepted:
            trace.count("result_accepted")
            if (turn_id, call_id) in self._accepted and not repeated:
                self._world.violated("never_a_wait_is_answered_twice", f"{turn_id} {call_id} was accepted twice")
            self._accepted.add((turn_id, call_id))
            return
        wait = self._world.memory.waits.get(TurnId(turn_id), {}).get(ToolCallId(call_id))
        if wait is None:
            trace.count("foreign_result")
        elif wait.status is WaitStatus.TIMEOUT:
            trace.count("timeout_won_over_result")
        elif again or (turn_id, call_id) in self._accepted:
            trace.count("duplicate_result")
        else:
            trace.count("late_result")
