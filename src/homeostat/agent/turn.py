"""What an author has inside a turn."""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from homeostat.agent.asking import Asked, Asking, Conversation, work_asked
from homeostat.agent.blocking import BlockingTurn
from homeostat.agent.errors import CallFailed, as_json
from homeostat.agent.invocation import Invoker, immediate, once
from homeostat.agent.journal import CardView, Journal, failed, replay, succeeded
from homeostat.agent.models import Completion, Models, headers_of, read_completion
from homeostat.agent.requests import Done, Request, target_of
from homeostat.agent.result import asked_fields, check_fields
from homeostat.agent.suspension import Lost, Suspended, TurnOver
from homeostat.core.clock import Millis, SystemClock
from homeostat.core.codec import Json, from_json
from homeostat.core.errors import BoxUnknown, InvalidRequest, StaleEpoch, Unavailable
from homeostat.core.ids import BoxId, CardId, Chance, chance
from homeostat.core.limits import DEFERRAL_SECONDS, DEFERRAL_SECONDS_MAX
from homeostat.core.ports.turns import WorkerSession
from homeostat.core.records.card import CardDraft
from homeostat.core.records.turn import AfterExecution, Grant, ToolCall
from homeostat.core.records.view import Hydration
from homeostat.core.records.work import Ask

T = TypeVar("T")

LLM_STEP: Final = "llm"
_NOTHING: Final = object()

_current: contextvars.ContextVar["Turn | None"] = contextvars.ContextVar("homeostat_turn", default=None)


class Turn:
    """One message being worked on.

    A turn that has to wait is left and begun again from its start when it can go on. So what must not happen twice
    belongs into `step`, and whatever differs from run to run does too.
    """

    def __init__(
        self,
        *,
        grant: Grant,
        hydration: Hydration,
        session: WorkerSession,
        journal: Journal | None = None,
        models: Models | None = None,
        invoker: Invoker | None = None,
        unstored: dict[str, Json] | None = None,
    ) -> None:
        self._grant = grant
        self.unstored: dict[str, Json] = {} if unstored is None else unstored
        self._session = session
        self._journal = journal or Journal(grant, hydration)
        self._models = models
        self._invoker = invoker or Invoker()
        self._loop = asyncio.get_running_loop()
        self._over: TurnOver | None = None
        self._busy_steps = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._writing = asyncio.Lock()
        self._wanted: list[Request] = []
        self._suspending: asyncio.Task[None] | None = None
        self._result: Any = _NOTHING
        self._conversation = Conversation()
        self._chance: Chance | None = None
        self.recording: Json | None = None
        record = grant.turn
        self.id = record.turn_id
        self.agent_id = record.agent_id
        self.project = record.project
        self.type = record.type
        self.trace_id = record.trace_id
        self.run_id = record.run_id
        self.depth = record.depth
        self.source = record.source
        self.correlation_id = record.correlation_id
        self.input: Any = from_json(record.payload)
        self.result_fields: list[dict[str, Any]] = from_json(record.result_fields) if record.result_fields else []
        self._context = None if hydration.context_gone else tuple(CardView.of(card) for card in hydration.context)
        self.output: tuple[CardView, ...] = tuple(CardView.of(card) for card in hydration.output)

    @property
    def context(self) -> tuple[CardView, ...]:
        """The cards of the context box; `BoxUnknown` where retention took it before the turn came to read it."""
        if self._context is None:
            raise BoxUnknown(box_id=self._grant.turn.context_box_id)
        return self._context

    # --- progress ------------------------------------------------------------------------------------------

    async def step(self, name: str, work: Callable[..., Any] | Awaitable[Any], /, *args: Any, **named: Any) -> Any:
        """Do something once: its outcome is stored, and given again whenever the turn is resumed.

        `work` is a coroutine function, a plain function (which runs in a thread) or an awaitable. Its outcome is JSON,
        and comes back as JSON does: a tuple as a list. An error is an outcome too.
        """
        return await self.step_asking(name, lambda: work_asked(args, named), work, *args, **named)

    async def step_asking(
        self, name: str, asking: Asking, work: Callable[..., Any] | Awaitable[Any], /, *args: Any, **named: Any
    ) -> Any:
        """A step that says for itself what it is asked to do, for the record of a run."""
        self._go_on()
        key = self._journal.step_key(name)
        self._journal.compare(key, asking)
        stored = self._journal.outcome(key)
        if (known := stored or self.unstored.get(key)) is not None:
            if inspect.iscoroutine(work):
                work.close()
            if stored is None:  # it was done here before the turn was lost, and nobody stored another outcome since
                await self._keep(key, known)
            return replay(key, known)
        self._journal.parallel = self._journal.parallel or self._busy_steps > 0
        self._busy_steps += 1
        self._quiet.clear()
        try:
            asked = None if self.run_id is None else self._journal.asks(key, asking)
            return await self._do_step(key, asked, work, args, named)
        finally:
            self._busy_steps -= 1
            if not self._busy_steps:
                self._quiet.set()

    async def _do_step(
        self, key: str, asked: Asked | None, work: Any, args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        try:
            with once():
                value = await work if inspect.isawaitable(work) else await self._invoker.call(work, *args, **named)
        except Unavailable:
            raise  # nothing is known to have changed: the turn is tried again
        except Exception as problem:
            await self._keep(key, failed(problem, asked))
            raise
        outcome = succeeded(value, key, asked)
        await self._keep(key, outcome)
        return replay(key, outcome)

    async def _keep(self, key: str, outcome: Json) -> None:
        self.unstored[key] = outcome
        await self.durably(lambda: self._session.step(self._grant, key, outcome))
        self._journal.keep(key, outcome)
        del self.unstored[key]

    async def now(self) -> Millis:
        """The time in Unix milliseconds, as a step: whenever the turn is run again, it is that same time."""
        return Millis(await self.step("now", immediate(lambda: SystemClock().now_ms())))

    @property
    def random(self) -> Chance:
        """Chance that repeats itself whenever the turn is run again: it follows from the seed of the run."""
        if self._chance is None:
            told = (self.correlation_id or "").partition(f"{self.run_id}/")[2] if self.run_id is not None else ""
            self._chance = chance(told or self.id)
        return self._chance

    # --- waiting -------------------------------------------------------------------------------------------

    def call(self, tool: str, /, **args: Any) -> Request:
        """Call a tool and suspend until its result is in. Raises `CallFailed` if it failed or was late."""
        return self.request(tool, args)

    def request(
        self,
        tool: str,
        args: dict[str, Any] | None = None,
        *,
        timeout_seconds: float | None = None,
        after_execution: str = "suspend",
    ) -> Request:
        """A tool call with a deadline of its own, or one whose result ends the turn (`after_execution="terminate"`)."""
        if after_execution not in tuple(AfterExecution):
            raise InvalidRequest(problem="after_execution is 'suspend' or 'terminate'")
        payload = as_json(args or {}, what=f"the arguments of {tool!r}")
        call = ToolCall(self._journal.call_id(), tool, payload, timeout_seconds, AfterExecution(after_execution))
        return Request(call, self._wait_for)

    def ask(
        self,
        agent: Any,
        message: Any = _NOTHING,
        /,
        *,
        timeout_seconds: float | None = None,
        context_box_id: str | None = None,
        result_fields: list[str | dict[str, Any]] | None = None,
        **fields: Any,
    ) -> Request:
        """Give another agent a turn and suspend until it has ended; its result is what comes back.

        The message is the second argument, or an object of the named ones. Raises `CallFailed` if that turn failed.
        """
        agent_id = target_of(agent)
        order = Ask(
            call_id=self._journal.call_id(),
            agent_id=agent_id,
            payload=as_json(fields if message is _NOTHING else message, what=f"the message to {agent_id!r}"),
            timeout_seconds=timeout_seconds,
            context_box_id=None if context_box_id is None else BoxId(context_box_id),
            result_fields=asked_fields(result_fields),
        )
        return Request(order, self._wait_for)

    async def gather(self, *requests: Request, return_errors: bool = False) -> list[Any]:
        """Wait for several calls and asks in one suspension. Raises the first error, unless errors are asked for."""
        results = await self._wait_for(*requests)
        if not return_errors:
            for result in results:
                if isinstance(result, CallFailed):
                    raise result
        return results

    async def _wait_for(self, *requests: Request) -> list[Any]:
        self._go_on()
        missing = [request for request in requests if self._answer(request) is None]
        if missing:
            self._wanted += missing
            if self._suspending is None:
                self._suspending = self._loop.create_task(self._suspend())
            await asyncio.shield(self._suspending)
        for request in requests:
            if (card_id := self._journal.missing_card(request.call_id)) is not None:
                card = await self.durably(lambda card_id=card_id: self._session.card(self._grant, card_id))
                self._journal.see(card_id, card.content if card is not None else Json("{}"))
        return [request.read(result) for request in requests if (result := self._answer(request)) is not None]

    def _answer(self, request: Request) -> Any:
        return self._journal.result(request.call_id, request.tool, request.args)

    async def _suspend(self) -> None:
        """Leave the turn, once for everything that anybody in it waits for by now."""
        await asyncio.sleep(0)
        await self._quiet.wait()  # a step under way is stored before the turn is left
        wanted, self._wanted = self._wanted, []
        self._suspending = None
        calls = tuple(request.order for request in wanted if isinstance(request.order, ToolCall))
        asks = tuple(request.order for request in wanted if isinstance(request.order, Ask))
        suspended = await self.durably(lambda: self._session.suspend(self._grant, calls, asks=asks))
        self._journal.learn(suspended.waits)
        if not suspended.ready:
            self.leave(Suspended())
            self._go_on()

    # --- models --------------------------------------------------------------------------------------------

    async def llm(
        self,
        messages: str | list[dict[str, Any]],
        *,
        model: str,
        name: str = LLM_STEP,
        stream: bool = False,
        **options: Any,
    ) -> Completion:
        """Ask a model, through the gateway. The answer is a step: a resumed turn does not ask (or pay) again.

        `options` are those of chat completions (`tools`, `temperature`, …). With `stream` the words are emitted as they
        come.
        """
        if self._models is None:
            raise InvalidRequest(problem="this worker has no way to a model; it was started without a gateway")
        models = self._models
        said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        body = {"model": model, "messages": said, **options}

        async def ask() -> dict[str, Any]:
            return await models.complete(body, headers_of(self._grant.turn), self._emit_text if stream else None)

        return read_completion(await self.step_asking(name, lambda: self._conversation.asked(body), ask))

    async def _emit_text(self, text: str) -> None:
        await self.emit({"type": "text", "text": text})

    # --- output --------------------------------------------------------------------------------------------

    async def emit(self, chunk: Any) -> None:
        """Stream a piece of output to whoever listens. What was streamed before is not streamed again on resumption."""
        self._go_on()
        text = as_json(chunk, what="the chunk")
        if not self._journal.replaying:
            try:
                await self._session.emit(self._grant, text)
            except Unavailable:
                return  # a chunk nobody could be given is a chunk nobody heard

    async def write(self, kind: str, content: Any, /) -> CardId:
        """Append a card to the turn's output, once."""
        self._go_on()
        text = as_json(content, what=f"card {kind!r}")
        async with self._writing:
            card_id = self._journal.written(kind, text)
            if card_id is None:
                card_id = await self.durably(lambda: self._append(CardDraft(kind, text)))
                self._journal.wrote(card_id, kind, text, self._grant)
        return card_id

    async def _append(self, draft: CardDraft) -> CardId:
        """Write a card; where that is in doubt, look before it is written again."""
        try:
            (card_id,) = await self._session.write(self._grant, (draft,))
        except Unavailable:
            now = await self.durably(lambda: self._session.hydrate(replace(self._grant, fresh=False)))
            found = self._journal.newly_written(now.output)
            if found is None:
                raise
            return found
        return card_id

    def submit_result(self, result: Any = _NOTHING, /, **fields: Any) -> Done:
        """Say what the turn's deliverable is; once per turn, and checked against what was asked for."""
        self._go_on()
        if self._result is not _NOTHING:
            raise InvalidRequest(problem="submit_result() is called once per turn")
        value = fields if result is _NOTHING else result
        text = as_json(value, what="the result")
        check_fields(self.result_fields, from_json(text))
        self._result = value
        return Done()

    @property
    def submitted(self) -> bool:
        return self._result is not _NOTHING

    @property
    def blocking(self) -> BlockingTurn:
        """The same turn for a plain function in a thread: `turn.blocking.step(…)` waits without `await`."""
        return BlockingTurn(self, self._loop)

    # --- for the worker ------------------------------------------------------------------------------------

    def result_of(self, returned: Any) -> Any:
        """What the turn delivers: what was submitted, else what was returned."""
        return returned if self._result is _NOTHING else self._result

    @property
    def over(self) -> TurnOver | None:
        """Why this worker has nothing more to do with the turn, if that is so."""
        return self._over

    def leave(self, over: TurnOver) -> None:
        """Let nothing more happen in this turn."""
        self._over = self._over or over

    def _go_on(self) -> None:
        if self._over is not None:
            raise self._over

    @property
    def journal(self) -> Journal:
        return self._journal

    def finish(self) -> None:
        """The author's code is done: see that it took the same path as before."""
        self._journal.close()

    async def durably(self, write: Callable[[], Awaitable[T]]) -> T:
        """Write for the turn until it is written, or until it is not this worker's to write."""
        pause = DEFERRAL_SECONDS / 10
        while True:
            self._go_on()
            try:
                return await write()
            except StaleEpoch:
                self.leave(Lost())
            except Unavailable:
                await asyncio.sleep(pause)
                pause = min(pause * 2, DEFERRAL_SECONDS_MAX)

    def enter(self) -> contextvars.Token["Turn | None"]:
        return _current.set(self)

    @staticmethod
    def exit(token: contextvars.Token["Turn | None"]) -> None:
        _current.reset(token)


def current_turn() -> Turn:
    """The turn this code runs in."""
    turn = _current.get()
    if turn is None:
        raise InvalidRequest(problem="there is no turn here; this is called from within an agent's process()")
    return turn


def submit_result(result: Any = _NOTHING, /, **fields: Any) -> Done:
    """Say what the current turn's deliverable is."""
    turn = current_turn()
    return turn.submit_result(**fields) if result is _NOTHING else turn.submit_result(result)
