"""Whether the server lives, whether it can be of use, and what it has counted."""

import asyncio
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from homeostat.core.errors import HomeostatError, ShuttingDown, StoreUnavailable, Unavailable
from homeostat.core.ids import AgentId, ProjectId
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes
from homeostat.server.metrics import Metrics

TEXT: Final = b"text/plain; charset=utf-8"
READY_SECONDS_MAX: Final = 2.0


def health_routes(metrics: Metrics | None) -> Routes:
    """The endpoints that machines ask."""
    routes = Routes("health")

    @routes.plain("GET", "/livez", media_type="text/plain")
    async def livez(call: Call) -> Answer:  # noqa: ARG001 — the signature is every endpoint's
        """Whether the process answers at all."""
        return Answer(200, b"ok\n", TEXT)

    @routes.plain("GET", "/readyz", media_type="text/plain", errors=(StoreUnavailable, ShuttingDown))
    async def readyz(call: Call) -> Answer:
        """Whether requests can be served: the store answers and the server is not stopping."""
        if call.patience.over:
            raise ShuttingDown
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                await call.system.kernel.store.head(ProjectId(call.system.settings.project), AgentId("readyz"))
        except TimeoutError:
            raise StoreUnavailable(problem=f"no answer within {READY_SECONDS_MAX:g} s") from None
        except HomeostatError:
            raise
        return Answer(200, b"ok\n", TEXT)

    @routes.plain("GET", "/metrics", media_type="text/plain")
    async def read_metrics(call: Call) -> Answer:
        """What the server has counted, for Prometheus."""
        assert metrics is not None, "a table without a server is not asked"
        try:
            metrics.fleet.census = await call.system.fleet.census()
        except Unavailable:
            metrics.fleet.census = None
        return Answer(200, generate_latest(metrics.registry), CONTENT_TYPE_LATEST.encode())

    return routes
