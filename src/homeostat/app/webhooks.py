"""Tells other systems of alerts: written down when they are heard, signed, sent, and sent again until they arrive."""

import asyncio
import base64
import hashlib
import hmac
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final, cast

import msgspec

from homeostat.adapters.couriers.http import HttpCourier
from homeostat.app.settings import Settings
from homeostat.app.supervisor import Supervisor
from homeostat.core.addresses import web_address
from homeostat.core.clock import Clock, Millis, rfc3339
from homeostat.core.codec import Json, from_json
from homeostat.core.errors import HomeostatError, Unavailable
from homeostat.core.ids import Ids, ProjectId, digest_of
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.webhook import Courier, WebhookStore
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.webhook import Delivery, DeliveryStatus, Webhook

log = logging.getLogger(__name__)

KINDS: Final = {
    "alert": (("agent", "alert"), ("immune", "alert")),
    "approval": (("agent", "approval"),),
    "phase": (("agent", "health"),),
    "budget": (("agent", "budget_warning"), ("run", "budget_warning")),
}
"""What can be subscribed to, and where it is said."""

ATTEMPTS_MAX: Final = 8
BACKOFF_SECONDS: Final = (5, 30, 120, 600, 1_800, 3_600, 7_200)
HOLD_SECONDS: Final = 60  # how long whoever took a delivery may take to send it
DUE_MAX: Final = 32
KEPT_SECONDS: Final = 7 * 86_400
TICK_SECONDS: Final = 1.0
OPEN_END: Final = "0001-01-01T00:00:00Z"


_BY_PLACE: Final = {place: kind for kind, places in KINDS.items() for place in places}


class Webhooks:
    """Hears events, keeps them for whoever wants them, and delivers them."""

    def __init__(self, *, store: WebhookStore, courier: Courier, clock: Clock, ids: Ids, public_url: str) -> None:
        self.store = store
        self._courier = courier
        self._clock = clock
        self._ids = ids
        self._public_url = public_url
        self._woken = asyncio.Event()

    async def listen(self, bus: Bus) -> None:
        for component, suffix in _BY_PLACE:
            await bus.subscribe(subject("*", Channel.EVT, component, "*", suffix), self._on_event)

    async def put(
        self, project: ProjectId, name: str, *, url: str, kinds: tuple[str, ...], allow_private: bool
    ) -> Webhook:
        """A place for alerts, with a new secret."""
        web_address(url)
        webhook = Webhook(
            project=project,
            name=name,
            url=url,
            secret="whsec_" + base64.b64encode(bytes.fromhex(self._ids.token())).decode(),
            kinds=kinds,
            allow_private=allow_private,
            created_at_ms=self._clock.now_ms(),
        )
        await self.store.put_webhook(webhook)
        return webhook

    async def test(self, webhook: Webhook) -> Delivery:
        """Send something harmless, on the way that alerts take."""
        told = {"agent_id": "none", "message": "this is a test; nothing happened"}
        return await self._keep(webhook, f"test_{self._ids.scope()}", "test", told)

    async def _on_event(self, event: Event) -> None:
        kind = _BY_PLACE[event.component, event.suffix]
        try:
            wanted = [one for one in await self.store.webhooks() if one.project == event.project and kind in one.kinds]
            for webhook in wanted:
                await self._keep(webhook, event.event_id, kind, {"agent_id": event.target, **_told(event)})
        except HomeostatError as error:
            log.warning("an alert was not written down: %s", error)

    async def _keep(self, webhook: Webhook, event_id: str, kind: str, told: dict[str, Any]) -> Delivery:
        now = self._clock.now_ms()
        delivery = Delivery(
            delivery_id=f"whd_{digest_of(f'{event_id} {webhook.project} {webhook.name}')}",
            project=webhook.project,
            webhook=webhook.name,
            kind=kind,
            body=alert_of(webhook, kind, told, now, self._public_url),
            created_at_ms=now,
            next_at_ms=now,
        )
        await self.store.put_delivery(delivery)
        self._woken.set()
        return delivery

    async def run(self) -> None:
        while True:
            try:
                await self.tick()
            except Unavailable as error:
                log.warning("webhooks wait: %s", error)
            self._woken.clear()
            try:
                async with asyncio.timeout(TICK_SECONDS):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def tick(self) -> None:
        """Send what is due."""
        now = self._clock.now_ms()
        due = await self.store.due_deliveries(now, DUE_MAX)
        if not due:
            await self.store.forget_deliveries(Millis(now - KEPT_SECONDS * 1000))
            return
        places = {(one.project, one.name): one for one in await self.store.webhooks()}
        for delivery in due:
            if await self.store.take_delivery(delivery, Millis(now + HOLD_SECONDS * 1000)):
                await self._send(delivery, places.get((delivery.project, delivery.webhook)))

    async def _send(self, delivery: Delivery, webhook: Webhook | None) -> None:
        if webhook is None:
            settled = replace(
                delivery, status=DeliveryStatus.FAILED, last_problem="the webhook is gone", next_at_ms=None
            )
            await self.store.settle_delivery(settled)
            return
        now, body = self._clock.now_ms(), delivery.body.encode()
        headers = {
            "content-type": "application/json",
            "user-agent": "homeostat",
            **signed(webhook.secret, delivery.delivery_id, now // 1000, body),
        }
        posted = await self._courier.post(webhook.url, body, headers, allow_private=webhook.allow_private)
        attempts = delivery.attempts + 1
        arrived = posted.status is not None and 200 <= posted.status < 300
        over = arrived or attempts >= ATTEMPTS_MAX
        wait = BACKOFF_SECONDS[min(attempts, len(BACKOFF_SECONDS)) - 1]
        settled = replace(
            delivery,
            status=_status(arrived=arrived, over=over),
            attempts=attempts,
            last_status=posted.status,
            last_problem=posted.problem,
            last_at_ms=now,
            next_at_ms=None if over else Millis(now + int(self._ids.uniform(0.8, 1.2) * wait * 1000)),
        )
        await self.store.settle_delivery(settled)


async def open_webhooks(
    settings: Settings,
    stack: AsyncExitStack,
    supervisor: Supervisor,
    store: WebhookStore,
    *,
    bus: Bus,
    clock: Clock,
    ids: Ids,
) -> Webhooks:
    """Webhooks that hear from now on, and whose loop ends with the others."""
    courier = HttpCourier()
    stack.push_async_callback(courier.close)
    stack.push_async_callback(supervisor.stop)  # nothing is on its way any more when the courier leaves
    webhooks = Webhooks(
        store=store, courier=courier, clock=clock, ids=ids, public_url=settings.public_url or f"http://{settings.host}"
    )
    await webhooks.listen(bus)
    supervisor.add("webhooks", webhooks.run)
    return webhooks


def _status(*, arrived: bool, over: bool) -> DeliveryStatus:
    if arrived:
        return DeliveryStatus.DELIVERED
    return DeliveryStatus.FAILED if over else DeliveryStatus.PENDING


def _told(event: Event) -> dict[str, Any]:
    """What an event says; one that was not made by us may say anything, and is passed on as it is."""
    said: Any = from_json(event.payload)
    if not isinstance(said, dict):
        return {"message": event.payload}
    said = cast("dict[str, Any]", said)
    step: Any = said.get("step")
    step = cast("dict[str, Any]", step) if isinstance(step, dict) else {}
    return said | ({"message": f"{said.get('phase')}: {step.get('cause')}"} if step else {})


def signed(secret: str, delivery_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of Standard Webhooks: whoever has the secret can tell who sent this, and when."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    text = b"%b.%d.%b" % (delivery_id.encode(), timestamp, body)
    signature = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
    }


def alert_of(webhook: Webhook, kind: str, told: dict[str, Any], now: Millis, public_url: str) -> Json:
    """An event in the shape that Alertmanager sends, so that what reads its webhooks reads ours."""
    labels = {
        "alertname": f"Homeostat{kind.capitalize()}",
        "project": str(webhook.project),
        "agent_id": str(told.get("agent_id", "")),
        "severity": "critical" if kind in {"alert", "budget"} else "warning",
    }
    summary = next((str(told[name]) for name in ("message", "why", "alert", "reason") if told.get(name)), kind)
    annotations = {"summary": summary[:500], "details": msgspec.json.encode(told).decode()[:4_000]}
    fingerprint = digest_of(msgspec.json.encode(labels).decode())[:16]
    alert = {
        "status": "firing",
        "labels": labels,
        "annotations": annotations,
        "startsAt": rfc3339(now),
        "endsAt": OPEN_END,
        "generatorURL": public_url,
        "fingerprint": fingerprint,
    }
    body = {
        "version": "4",
        "groupKey": f"{{}}:{{alertname={labels['alertname']!r}}}",
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": webhook.name,
        "groupLabels": {"alertname": labels["alertname"]},
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": public_url,
        "alerts": [alert],
    }
    return Json(msgspec.json.encode(body).decode())
