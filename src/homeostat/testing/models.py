"""The simulated model behind a port of its own, for tests and measurements that need an upstream over HTTP."""

import argparse
import asyncio
import sys
from typing import Any, Final

import uvicorn

from homeostat.adapters.upstreams.simulated import Pace
from homeostat.adapters.upstreams.simulated.faults import FaultyUpstream
from homeostat.core.gateway_errors import UpstreamFailed
from homeostat.core.ports.upstream import Upstream, UpstreamRequest
from homeostat.testing.servers import Server

HEARD: Final = "/heard"


class ModelApp:
    """An upstream as an ASGI application. It remembers the headers it was sent; `GET /heard` tells them."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._heard: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        if scope["path"] == HEARD:
            await _answer(send, 200, [(b"content-type", b"text/plain")], b"\n".join(self._heard))
            return
        self._heard += [name + b": " + value for name, value in scope["headers"]]
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        request = UpstreamRequest(scope["method"].encode(), target, scope["headers"], body)
        response = await self._upstream.send(request)
        try:
            await send({"type": "http.response.start", "status": response.status, "headers": response.headers})
            while block := await response.read():
                await send({"type": "http.response.body", "body": block, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except UpstreamFailed:
            return  # the connection is cut, as it would be
        finally:
            response.close()


async def _answer(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class ModelServer(Server):
    """A process that answers as OpenAI and Anthropic would, at a pace of one's choice."""

    title = "models"
    ready_words = "models are up"

    def __init__(self, *, first_token_seconds: float = 0.0, token_seconds: float = 0.0) -> None:
        super().__init__()
        self._pace = (str(first_token_seconds), str(token_seconds))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "homeostat.testing.models", "--port", str(self.port), "--pace", *self._pace]


async def _serve(port: int, pace: Pace) -> None:
    config = uvicorn.Config(
        ModelApp(FaultyUpstream(pace=pace)),
        host="127.0.0.1",
        port=port,
        http="httptools",
        lifespan="off",
        access_log=False,
        log_config=None,
        date_header=False,
        timeout_keep_alive=75,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started and not serving.done():  # noqa: ASYNC110 - the server has no signal for it
        await asyncio.sleep(0.01)
    sys.stdout.write("models are up\n")
    sys.stdout.flush()
    await serving


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pace", type=float, nargs=2, default=(0.0, 0.0))
    arguments = parser.parse_args()
    with asyncio.Runner() as runner:
        runner.run(_serve(arguments.port, Pace(*arguments.pace, spread=0.0)))


if __name__ == "__main__":
    main()
