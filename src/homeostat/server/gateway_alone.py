"""The gateway alone as an ASGI application: model calls, whether it lives, and what it has counted."""

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from homeostat.app.assemble import GatewaySystem
from homeostat.core.errors import HomeostatError
from homeostat.gateway.asgi import reply
from homeostat.server.metrics import GatewayCollector
from homeostat.server.patience import Patience

TEXT = b"text/plain; charset=utf-8"


class GatewayAlone:
    """Passes model calls to the gateway and answers the few questions that machines ask."""

    def __init__(self, system: GatewaySystem) -> None:
        self.patience = Patience()
        self._gateway = system.gateway
        self.quick = system.gateway.application.quick
        self._registry = CollectorRegistry()
        self._registry.register(GatewayCollector(system.gateway))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] in {"/livez", "/readyz", "/metrics"}:
            status, body, kind = await self._answer(scope["path"])
            headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
            await reply(scope, send, status, headers, body)
            return
        await self._gateway.application(scope, receive, send)

    async def _answer(self, path: str) -> tuple[int, bytes, bytes]:
        if path == "/metrics":
            return 200, generate_latest(self._registry), CONTENT_TYPE_LATEST.encode()
        if path == "/readyz":
            try:
                await self._gateway.store.version()
            except HomeostatError as error:
                return 503, f"{error}\n".encode(), TEXT
            if self.patience.over:
                return 503, b"it is shutting down\n", TEXT
        return 200, b"ok\n", TEXT
