"""A worker inside a simulated process: claims turns, follows their scripts, beats while it holds any."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from homeostat.app.local_turns import LocalSession, LocalTurns
from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import (
    BoxNotYours,
    BoxReadOnly,
    BoxUnknown,
    ProtocolViolation,
    Refused,
    StaleEpoch,
    Unavailable,
    WorkerUnknown,
)
from homeostat.core.ids import AgentId, BoxId, ToolCallId, TurnId, box_of
from homeostat.core.limits import LEASE_BEATS
from homeostat.core.records.card import CardDraft
from homeostat.core.records.turn import AfterExecution, AgentKey, Grant, ToolCall
from homeostat.core.records.view import Hydration, Outcome
from homeostat.core.records.work import Ask, Fence
from homeostat.core.run_errors import RunClosed
from homeostat.testing.simulation.script import payload_of

if TYPE_CHECKING:
    from homeostat.testing.simulation.process import Process

T = TypeVar("T")


class Gone(Exception):
    """The turn is no longer this worker's."""


class Worker:
    """One worker session after another, until its process dies."""

    def __init__(self, process: "Process", hosted: list[AgentKey], slots: int) -> None:
        self._process = process
        self._world = process.world
        self._kernel = process.kernel
        self._hosted = hosted
        self._slots = slots
        self._restless = self._world.chance.random() < 0.2  # beats although it holds nothing
        self._session = LocalSession(process.kernel, self._revoked)
        self._bodies: dict[tuple[TurnId, int], tuple[Body, asyncio.Task[None]]] = {}
        self._free = asyncio.Event()

    async def run(self) -> None:
        while True:
            try:
                self._session = await LocalTurns(self._kernel).open(self._hosted, self._revoked)
                beat = self._process.begin(self._beat, self._session)
                try:
                    await self._serve()
                finally:
                    beat.cancel()
                await self._leave()
            except (Unavailable, WorkerUnknown):
                await asyncio.sleep(0.2)

    # --- the session ---------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        chance, weather = self._world.chance, self._world.weather
        while not (weather.worker_leaves and chance.random() < weather.worker_leaves):
            weather = self._world.weather
            while len(self._bodies) >= self._slots:
                self._free.clear()
                await self._free.wait()
            try:
                grants = await self._claim(self._slots - len(self._bodies))
            except Unavailable:
                await asyncio.sleep(0.3)
                continue
            for grant in grants:
                self._start(grant)

    async def _claim(self, limit: int) -> list[Grant]:
        chance, weather = self._world.chance, self._world.weather
        claim = self._session.claim(limit, chance.choice((1.0, 5.0, 20.0)))
        if not weather.claim_given_up or chance.random() >= weather.claim_given_up:
            return await claim
        self._world.trace.count("claim_given_up")
        try:
            async with asyncio.timeout(chance.choice((0.0, 0.001, 0.002, 0.5))):
                return await claim
        except TimeoutError:
            return []

    async def _leave(self) -> None:
        """Hand back what is in work, then go."""
        for _, task in list(self._bodies.values()):
            task.cancel()
        self._world.trace.count("worker_left")
        await self._session.close()
        await asyncio.sleep(0.05)

    async def _beat(self, session: LocalSession) -> None:
        while True:
            await asyncio.sleep(session.lease_seconds / LEASE_BEATS)
            if not self._bodies and not self._restless:
                continue
            gone = [(body, task) for body, task in self._bodies.values() if body.works_in_vain(session)]
            try:
                await session.renew()
            except Unavailable:
                continue
            except WorkerUnknown:
                return
            for body, task in gone:
                if body.pausing and not task.cancelling():
                    self._world.violated("never_a_beat_overlooks_a_turn_that_was_taken_away", body.name)
            self._world.trace.count("told_by_a_beat", len(gone))

    def _revoked(self, fence: Fence) -> None:
        found = self._bodies.get((fence.turn_id, fence.epoch))
        if found is not None:
            self._world.trace.count("revoked_while_running")
            found[1].cancel()

    def _start(self, grant: Grant) -> None:
        key = (grant.turn.turn_id, grant.epoch)
        body = Body(self, grant)
        task = self._process.begin(body.run)
        self._bodies[key] = (body, task)
        task.add_done_callback(lambda _: self._done(key))

    def _done(self, key: tuple[TurnId, int]) -> None:
        self._bodies.pop(key, None)
        self._free.set()

    # --- what a body needs ---------------------------------------------------------------------------------

    @property
    def session(self) -> LocalSession:
        return self._session

    @property
    def process(self) -> "Process":
        return self._process

    def follow(self, grant: Grant | None) -> None:
        if grant is not None:
            self._start(grant)

    async def surely(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until its outcome is known."""
        while True:
            try:
                return await call()
            except Unavailable:
                await asyncio.sleep(self._world.chance.uniform(0.05, 0.8))
            except StaleEpoch as stale:
                self._world.trace.count("fenced_off")
                raise Gone from stale


class Body:
    """One attempt at one turn."""

    def __init__(self, worker: Worker, grant: Grant) -> None:
        self._worker = worker
        self._grant = grant
        self._world = worker.process.world
        self._session = worker.session
        self._tag = ""
        self._hydration = Hydration({}, (), ())
        self.pausing = False

    @property
    def name(self) -> str:
        return f"{self._grant.turn.turn_id} epoch {self._grant.epoch}"

    def works_in_vain(self, session: LocalSession) -> bool:
        """Whether its turn was taken away while it asks nothing whose answer would tell it so."""
        return self.pausing and self._session is session and not self._world.holds(self._grant)

    async def run(self) -> None:
        body = from_json(self._grant.turn.payload)
        self._tag = body["tag"]
        try:
            self._hydration = await self._worker.surely(lambda: self._session.hydrate(self._grant))
            self._world.checks.context_read(self._grant.turn, self._hydration.context)
            if not self._grant.fresh:
                self._world.trace.count("resumed_or_repeated")
            for op in body["script"]:
                if await self._do(op):
                    return
        except Gone:
            return

    async def _do(self, op: list[Any]) -> bool:
        """Follow one line of the script; True ends the attempt."""
        match op[0]:
            case "step":
                await self._step(op[1])
            case "pause":
                self.pausing = True
                await asyncio.sleep(op[1])
                self.pausing = False
            case "card":
                await self._worker.surely(lambda: self._session.write(self._grant, (CardDraft("note", to_json("x")),)))
            case "calls":
                return await self._suspend(tuple(_tool_call(*call) for call in op[1]), ())
            case "ask":
                return await self._ask(op[1], op[2], op[3], op[4])
            case "swap":
                await self._swap()
            case "misbehave":
                await self._misbehave()
            case "release" if self._world.chance.random() < 0.5:
                await self._worker.surely(lambda: self._session.release(self._grant))
                return True
            case "die" if self._world.chance.random() < 0.3:
                self._worker.process.crash()
                await asyncio.sleep(0)
            case "poison" if self._world.storm:
                self._worker.process.crash()
                await asyncio.sleep(0)
            case "end":
                await self._deliver(Outcome(op[1]), claim_next=op[2])
                return True
            case _:
                pass
        return False

    async def _step(self, name: str) -> None:
        if name in self._hydration.steps:
            self._world.trace.count("step_replayed")
            return
        turn_id = self._grant.turn.turn_id
        self._world.checks.side_effect(turn_id, self._grant.epoch, name)
        await self._worker.surely(lambda: self._session.step(self._grant, name, to_json(self._grant.epoch)))
        self._world.checks.stepped(turn_id, self._grant.epoch, name)

    async def _ask(self, call_id: str, agent: str, script: list[Any], seconds: float) -> bool:
        tag = f"{self._grant.turn.turn_id}/{call_id}"
        ask = Ask(
            call_id=ToolCallId(call_id),
            agent_id=AgentId(agent),
            payload=payload_of(tag, script),
            timeout_seconds=seconds,
        )
        self._world.trace.count("join")
        self._world.unique_tags.add(tag)
        return await self._suspend((), (ask,))

    async def _suspend(self, calls: tuple[ToolCall, ...], asks: tuple[Ask, ...]) -> bool:
        try:
            suspended = await self._worker.surely(lambda: self._session.suspend(self._grant, calls, asks=asks))
        except RunClosed:  # its run was killed, and asks nothing of anybody any more
            self._world.trace.count("ask_of_a_killed_run")
            await self._deliver(Outcome.FAILED, claim_next=False)
            return True
        return not suspended.ready

    async def _swap(self) -> None:
        box = self._world.chance.choice(self._world.boxes) if self._world.boxes else None
        try:
            await self._worker.surely(lambda: self._session.swap_boxes(self._grant, output_box_id=box))
            self._world.trace.count("box_swapped")
        except (BoxNotYours, BoxReadOnly, BoxUnknown):
            self._world.trace.count("box_refused")

    async def _misbehave(self) -> None:
        """Ask for what must be refused; none of it may leave a trace."""
        grant, session = self._grant, self._session
        tag = f"{grant.turn.turn_id}/refused"
        self._world.checks.forbidden_tags.add(tag)
        fine = Ask(call_id=ToolCallId("fine"), agent_id=self._neighbour(), payload=payload_of(tag, []))
        late, twin = _tool_call("late", "mail", -1.0, "suspend"), _tool_call("twin", "mail", 1.0, "suspend")
        notes = (CardDraft("note", to_json("never")),)
        forged = replace(grant, epoch=grant.epoch + 1)
        wrongs: list[Callable[[], Awaitable[object]]] = [
            lambda: session.suspend(grant, (), cards=notes),
            lambda: session.suspend(grant, (late,), asks=(fine,), cards=notes),
            lambda: session.suspend(grant, (twin, twin), asks=(fine,), cards=notes),
            lambda: session.suspend(grant, asks=(fine, replace(fine, agent_id=AgentId("nobody"))), cards=notes),
            lambda: session.suspend(grant, asks=(fine, replace(fine, agent_id=grant.turn.agent_id)), cards=notes),
            lambda: session.swap_boxes(grant, output_box_id=BoxId("box_nowhere")),
            lambda: session.swap_boxes(grant, output_box_id=box_of(grant.turn.turn_id)),
            lambda: session.step(forged, "forged", to_json(0)),
        ]
        if (other := self._world.open_turn(besides=grant.turn.key)) is not None:
            wrongs.append(lambda: session.swap_boxes(grant, output_box_id=box_of(other)))
        for wrong in wrongs:
            try:
                await wrong()
            except (ProtocolViolation, Refused):
                self._world.trace.count("refused")
            except (Unavailable, RunClosed):
                continue
            except StaleEpoch as stale:
                if self._world.holds(grant):
                    continue
                raise Gone from stale
            else:
                self._world.violated("never_a_refused_command_changes_anything", f"{wrongs.index(wrong)} was allowed")

    def _neighbour(self) -> AgentId:
        return next(agent for _, agent in self._world.agents if agent != self._grant.turn.agent_id)

    async def _deliver(self, status: Outcome, *, claim_next: bool) -> None:
        delivered = await self._worker.surely(
            lambda: self._session.deliver(
                self._grant,
                status=status,
                result=to_json({"tag": self._tag}),
                error=to_json({"code": "script"}) if status is Outcome.FAILED else None,
                cards=(CardDraft("note", to_json("last")),),
                claim_next=claim_next,
            )
        )
        turn_id = self._grant.turn.turn_id
        self._world.checks.delivered(turn_id, delivered.card_id)
        self._worker.follow(delivered.next)


def _tool_call(call_id: str, tool: str, seconds: float, after: str) -> ToolCall:
    return ToolCall(ToolCallId(call_id), tool, Json('{"q":1}'), seconds, AfterExecution(after))
