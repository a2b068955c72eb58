"""Alerts that leave the house: signed, shaped, retried, logged, and not to the neighbours by surprise."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import httpx2
import pytest

from homeostat.app.assemble import System
from homeostat.core.codec import to_json
from homeostat.core.ids import ProjectId
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.webhook import Delivery, DeliveryStatus
from homeostat.testing.servers import free_port

EVENT = Event(
    "alr_1",
    ProjectId("default"),
    Channel.EVT,
    "immune",
    "ann",
    "alert",
    to_json({"alert": "outage", "about": "ann", "message": "the provider is away"}),
)


class Receiver(ThreadingHTTPServer):
    """Takes what is sent; answers with `status`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", free_port()), Handler)
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status = 200
        self.url = f"http://localhost:{self.server_port}/hook?x=1"


class Handler(BaseHTTPRequestHandler):
    server: Receiver  # pyright: ignore[reportIncompatibleVariableOverride] - it is ours

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the signature is the library's
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(self.server.status)
        self.send_header("location", "http://127.0.0.1:1/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, daemon=True)
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()


async def made(http: httpx2.AsyncClient, url: str, **more: object) -> str:
    answer = await http.put("/v1/webhooks/on-call", json={"url": url, "allow_private": True} | more)
    assert answer.status_code == 200, answer.text
    return answer.json()["secret"]


async def settled(http: httpx2.AsyncClient, attempts: int = 1) -> dict[str, Any]:
    """The newest delivery, once it was tried that often."""
    with anyio.fail_after(60):
        while True:
            page = (await http.get("/v1/webhooks/on-call/deliveries")).json()["deliveries"]
            if page and page[0]["attempts"] >= attempts:
                return page[0]
            await anyio.sleep(0.05)


async def test_deliveries_of_one_moment_are_all_in_the_log(http: httpx2.AsyncClient, system: System) -> None:
    await made(http, "http://localhost:9/hook")
    at = system.clock.now_ms()
    sent = [
        Delivery(
            delivery_id=f"whd_{number}",
            project=ProjectId("default"),
            webhook="on-call",
            kind="alert",
            body=to_json({}),
            created_at_ms=at,
            status=DeliveryStatus.DELIVERED,
        )
        for number in range(5)
    ]
    for one in sent:
        await system.webhooks.store.put_delivery(one)
    found: list[str] = []
    cursor = None
    while True:
        asked = {"limit": 2, **({} if cursor is None else {"cursor": cursor})}
        page = (await http.get("/v1/webhooks/on-call/deliveries", params=asked)).json()
        found += [one["delivery_id"] for one in page["deliveries"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == [f"whd_{number}" for number in (4, 3, 2, 1, 0)]
    wrong = await http.get("/v1/webhooks/on-call/deliveries", params={"cursor": "x"})
    assert wrong.json()["detail"] == "cursor is not valid: it must be `next_cursor` of the page before."


async def test_an_alert_arrives_signed_and_in_a_known_shape(
    http: httpx2.AsyncClient, system: System, receiver: Receiver
) -> None:
    secret = await made(http, receiver.url)
    await system.bus.publish((EVENT, EVENT))
    delivery = await settled(http)
    assert (delivery["status"], delivery["last_status"]) == ("delivered", 200)
    assert len(receiver.got) == 1, "the same event is told once"
    headers, body = receiver.got[0]
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert headers["host"].startswith("localhost:")
    told = json.loads(body)
    assert told["version"] == "4"
    assert told["alerts"][0]["labels"]["alertname"] == "HomeostatAlert"
    assert told["alerts"][0]["annotations"]["summary"] == "the provider is away"
    shown = await http.get("/v1/webhooks")
    assert secret not in shown.text, "a secret is shown once"


async def test_what_is_not_taken_is_sent_again_later(
    http: httpx2.AsyncClient, system: System, receiver: Receiver
) -> None:
    await made(http, receiver.url)
    receiver.status = 500
    tried = await http.post("/v1/webhooks/on-call/test")
    assert tried.status_code == 202
    delivery = await settled(http)
    assert (delivery["status"], delivery["last_status"]) == ("pending", 500)
    assert delivery["next_at"] > delivery["last_at"]
    await http.delete("/v1/webhooks/on-call")
    assert (await http.post("/v1/webhooks/on-call/test")).json()["code"] == "webhook_unknown"


@pytest.mark.parametrize("allow", [False, True])
async def test_the_neighbours_hear_nothing_unless_it_is_meant(
    http: httpx2.AsyncClient, receiver: Receiver, *, allow: bool
) -> None:
    receiver.status = 302
    await made(http, receiver.url, allow_private=allow)
    await http.post("/v1/webhooks/on-call/test")
    delivery = await settled(http)
    assert len(receiver.got) == int(allow)
    if allow:
        assert delivery["last_status"] == 302, "a redirect is not followed"
    else:
        assert "of your own network" in delivery["last_problem"]


@pytest.mark.parametrize(
    "address", ["ftp://x/", "http://user:word@example.com/", "https://", "file:///etc/passwd", "x"]
)
async def test_what_is_no_address_is_refused(http: httpx2.AsyncClient, address: str) -> None:
    assert (await http.put("/v1/webhooks/on-call", json={"url": address})).status_code == 422
