"""The client for programs without an event loop."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, ParamSpec, Self, TypeVar
from weakref import finalize

from anyio.from_thread import BlockingPortal, start_blocking_portal

from homeostat.client.client import ASK_SECONDS, Client
from homeostat.client.transport import RETRY_SECONDS
from homeostat.core.ids import BoxId
from homeostat.core.records.card import Card
from homeostat.core.records.view import Deliverable, Edge, HeadView, TurnView
from homeostat.core.wire import answers as a

P = ParamSpec("P")
T = TypeVar("T")


def _end(portal: BlockingPortal, starting: AbstractContextManager[BlockingPortal]) -> None:
    """End the loop and all that goes on in it: an interrupt that came while a call began has left it behind there."""
    with suppress(RuntimeError):
        portal.call(partial(portal.stop, cancel_remaining=True))
    starting.__exit__(None, None, None)


class SyncClient:
    """The same client, each call of which blocks. It keeps one event loop in a thread of its own."""

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        project: str | None = None,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        starting = start_blocking_portal("asyncio", name="homeostat-client")
        self._portal: BlockingPortal = starting.__enter__()
        # At the latest while threads still run: later, the interpreter would wait for this one for ever.
        self._end = finalize(self, _end, self._portal, starting)
        self.asynchronous = self._portal.call(
            lambda: Client(url, key=key, project=project, retry_seconds=retry_seconds)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._end.alive:
            try:
                self._portal.call(self.asynchronous.close)
            finally:
                self._end()

    def _wait(self, work: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        working = self._portal.start_task_soon(lambda: work(*args, **kwargs))
        try:
            return working.result()
        finally:
            working.cancel()  # whoever was interrupted leaves nothing behind that the end would wait for

    def register(self, agent_type: str, **facts: Any) -> a.Registered:
        return self._wait(self.asynchronous.register, agent_type, **facts)

    def enqueue(self, agent_id: str, payload: object, **message: Any) -> a.Accepted:
        return self._wait(self.asynchronous.enqueue, agent_id, payload, **message)

    def ask(self, agent_id: str, payload: object, *, wait: float = ASK_SECONDS, **message: Any) -> Deliverable:
        return self._wait(self.asynchronous.ask, agent_id, payload, wait=wait, **message)

    def turn(self, turn_id: str) -> TurnView:
        return self._wait(self.asynchronous.turn, turn_id)

    def deliverable(self, turn_id: str, *, wait: float = 0.0) -> Deliverable:
        return self._wait(self.asynchronous.deliverable, turn_id, wait=wait)

    def report(self, turn_id: str, tool_call_id: str, result: object, **facts: Any) -> a.ReportedShape:
        return self._wait(self.asynchronous.report, turn_id, tool_call_id, result, **facts)

    def stop(self, turn_id: str, *, reason: str = "stopped by a caller", actor: str = "api") -> a.StoppedShape:
        return self._wait(self.asynchronous.stop, turn_id, reason=reason, actor=actor)

    def head(self, agent_id: str) -> HeadView:
        return self._wait(self.asynchronous.head, agent_id)

    def inbox(self, agent_id: str, **page: Any) -> a.InboxPage:
        return self._wait(self.asynchronous.inbox, agent_id, **page)

    def edges(self, *, trace_id: str | None = None, turn_id: str | None = None) -> list[Edge]:
        return self._wait(self.asynchronous.edges, trace_id=trace_id, turn_id=turn_id)

    def card(self, card_id: str) -> Card:
        return self._wait(self.asynchronous.card, card_id)

    def box(self, box_id: str) -> list[Card]:
        return self._wait(self.asynchronous.box, box_id)

    def create_box(self, cards: Sequence[tuple[str, object]] = (), *, author: str | None = None) -> BoxId:
        return self._wait(self.asynchronous.create_box, cards, author=author)

    def delete_box(self, box_id: str) -> None:
        self._wait(self.asynchronous.delete_box, box_id)
