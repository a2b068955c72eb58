"""Webhooks over HTTP: where alerts go, and what became of each."""

from homeostat.access.errors import WebhookUnknown
from homeostat.core.clock import Millis, rfc3339
from homeostat.core.errors import Forbidden, InvalidRequest, Unauthenticated
from homeostat.core.limits import NAME_CHARS_MAX
from homeostat.core.records.webhook import Delivery, Webhook
from homeostat.core.wire import webhooks as w
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import NOTHING, Routes
from homeostat.server.render import instant

routes = Routes("webhooks")

ERRORS = (WebhookUnknown, Forbidden, Unauthenticated)


@routes.plain("GET", "/v1/webhooks", gives=w.WebhooksShape, errors=(Forbidden, Unauthenticated))
async def list_webhooks(call: Call) -> w.WebhooksShape:
    """Where alerts go."""
    found = await call.system.webhooks.store.webhooks()
    return w.WebhooksShape(webhooks=[_webhook(one) for one in found if one.project == call.project])


@routes.taking(
    "PUT",
    "/v1/webhooks/{name}",
    w.WebhookBody,
    gives=w.WebhookShape,
    errors=(*ERRORS, InvalidRequest),
    examples={"on call": {"url": "https://alerts.example.com/homeostat", "kinds": ["alert", "approval"]}},
)
async def put_webhook(call: Call, body: w.WebhookBody) -> w.WebhookShape:
    """Send alerts somewhere, signed by Standard Webhooks, shaped as Alertmanager's. The secret is shown this once."""
    made = await call.system.webhooks.put(
        call.project, _name(call), url=body.url, kinds=body.kinds, allow_private=body.allow_private
    )
    return _webhook(made, secret=made.secret)


@routes.plain("DELETE", "/v1/webhooks/{name}", status=204, errors=ERRORS)
async def drop_webhook(call: Call) -> Answer:
    """Send no more alerts there; what was on its way is given up."""
    if not await call.system.webhooks.store.drop_webhook(call.project, _name(call)):
        raise WebhookUnknown(name=_name(call))
    return NOTHING


@routes.plain("POST", "/v1/webhooks/{name}/test", gives=w.DeliveryShape, status=202, errors=ERRORS)
async def test_webhook(call: Call) -> w.DeliveryShape:
    """Send something harmless there, on the way that alerts take."""
    return _delivery(await call.system.webhooks.test(await _known(call)))


@routes.taking("GET", "/v1/webhooks/{name}/deliveries", w.DeliveriesQuery, gives=w.DeliveriesPage, errors=ERRORS)
async def list_deliveries(call: Call, query: w.DeliveriesQuery) -> w.DeliveriesPage:
    """What was sent there, newest first, and what came of it."""
    webhook = await _known(call)
    at, _, delivery_id = (query.cursor or "").partition(".")
    before = (Millis(int(at)), delivery_id) if at else None
    found = await call.system.webhooks.store.deliveries(call.project, webhook.name, before=before, limit=query.limit)
    last = found[-1] if len(found) == query.limit else None
    following = None if last is None else f"{last.created_at_ms}.{last.delivery_id}"
    return w.DeliveriesPage(deliveries=[_delivery(one) for one in found], next_cursor=following)


async def _known(call: Call) -> Webhook:
    name = _name(call)
    for one in await call.system.webhooks.store.webhooks():
        if (one.project, one.name) == (call.project, name):
            return one
    raise WebhookUnknown(name=name)


def _name(call: Call) -> str:
    name = call.parameters["name"]
    if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable():
        raise WebhookUnknown(name=name[:NAME_CHARS_MAX])
    return name


def _webhook(one: Webhook, secret: str | None = None) -> w.WebhookShape:
    return w.WebhookShape(
        name=one.name,
        url=one.url,
        kinds=one.kinds,
        allow_private=one.allow_private,
        created_at=rfc3339(one.created_at_ms),
        secret=secret,
    )


def _delivery(one: Delivery) -> w.DeliveryShape:
    return w.DeliveryShape(
        delivery_id=one.delivery_id,
        kind=one.kind,
        status=one.status,
        attempts=one.attempts,
        last_status=one.last_status,
        last_problem=one.last_problem,
        created_at=rfc3339(one.created_at_ms),
        last_at=instant(one.last_at_ms),
        next_at=instant(one.next_at_ms),
    )
