"""Models as a replay has them: none where everything is recorded; else the way out to whoever answers them anew."""

from typing import Any, Final

from homeostat.agent.errors import ModelRefused
from homeostat.agent.models import Models, OnText
from homeostat.core.errors import HomeostatError, Unavailable
from homeostat.core.ports.upstream import Headers, Upstream, UpstreamRequest, UpstreamResponse
from homeostat.runs.replaying.outside import let_out

NOBODY_ASKED: Final = frozenset({401, 402})
"""What is answered in a model's place: to whom nobody knows, and where no money is left. A policy's no is an answer."""


class LiveModels(Models):
    """Models that are asked anew. Tells of calls that no model answered: that is not the doing of whoever asked."""

    def __init__(self, upstream: Upstream) -> None:
        super().__init__(upstream)
        self._unanswered: HomeostatError | None = None

    async def complete(self, body: dict[str, Any], headers: Headers, on_text: OnText | None = None) -> dict[str, Any]:
        try:
            return await super().complete(body, headers, on_text)
        except (ModelRefused, Unavailable) as problem:
            if isinstance(problem, Unavailable) or problem.status in NOBODY_ASKED:
                self._unanswered = self._unanswered or problem
            raise

    def take_unanswered(self) -> HomeostatError | None:
        """Why the first such call since this was asked last was not answered."""
        problem, self._unanswered = self._unanswered, None
        return problem


class Nowhere:
    """Where model calls of an exact replay would go, were there any."""

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        raise AssertionError(f"an exact replay asks no model: {request.target!r}")

    async def close(self) -> None: ...


OF_THE_RUN: Final = frozenset({b"x-homeostat-run-id", b"x-homeostat-turn-id", b"traceparent"})
"""What a model call says it is part of: a run that is over, and pays for nothing any more."""


class Window:
    """The one way out of a replay that asks models anew: in the agent's name, but not in the run's."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        headers = [header for header in request.headers if header[0] not in OF_THE_RUN]
        with let_out():
            return await self._upstream.send(UpstreamRequest(request.method, request.target, headers, request.body))

    async def close(self) -> None:
        await self._upstream.close()
