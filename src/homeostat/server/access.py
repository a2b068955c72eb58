"""Keys over HTTP: who may come in, and as what."""

from homeostat.access.errors import KeyUnknown
from homeostat.access.keys import Issued
from homeostat.core.clock import rfc3339
from homeostat.core.errors import Forbidden, Unauthenticated
from homeostat.core.ids import ProjectId
from homeostat.core.limits import NAME_CHARS_MAX
from homeostat.core.records.access import ApiKey, KeyId
from homeostat.core.wire import access as w
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes
from homeostat.server.render import instant

routes = Routes("access")


@routes.plain("GET", "/v1/keys", gives=w.KeysShape, errors=(Forbidden, Unauthenticated))
async def list_keys(call: Call) -> w.KeysShape:
    """Every key: its role, its scope, when it was last used. Never its secret."""
    scope = call.principal.project
    keys = await call.system.access.keys.all()
    return w.KeysShape(keys=[_key(key) for key in keys if scope in (None, key.project)])


@routes.taking(
    "POST",
    "/v1/keys",
    w.KeyBody,
    gives=w.IssuedShape,
    status=201,
    errors=(Forbidden, Unauthenticated),
    examples={
        "somebody who looks": {"name": "wall screen", "role": "viewer"},
        "for a month": {"name": "night shift", "role": "operator", "expires_in_seconds": 2_592_000},
    },
)
async def create_key(call: Call, body: w.KeyBody) -> w.IssuedShape:
    """Make a key. Its secret is in this answer and nowhere else."""
    scope = call.principal.project
    project = scope if body.project is None else ProjectId(body.project)
    if scope not in (None, project):
        raise Forbidden(verb="make keys of", object=project)
    return _issued(
        await call.system.access.keys.create(
            name=body.name,
            role=body.role,
            project=project,
            expires_in_seconds=body.expires_in_seconds,
            by=call.actor("local"),
        )
    )


@routes.taking(
    "POST",
    "/v1/keys/{key_id}/rotate",
    w.RotationBody,
    gives=w.IssuedShape,
    errors=(KeyUnknown, Forbidden, Unauthenticated),
    examples={"ten minutes to change over": {"overlap_seconds": 600}},
)
async def rotate_key(call: Call, body: w.RotationBody) -> w.IssuedShape:
    """Give a key a new secret; the old one stays good for the overlap."""
    key_id = await _mine(call)
    return _issued(await call.system.access.keys.rotate(key_id, overlap_seconds=body.overlap_seconds))


@routes.taking(
    "POST",
    "/v1/keys/{key_id}/revoke",
    w.RevocationBody,
    gives=w.KeyShape,
    errors=(KeyUnknown, Forbidden, Unauthenticated),
    examples={"it leaked": {"reason": "it was in a screenshot"}},
)
async def revoke_key(call: Call, body: w.RevocationBody) -> w.KeyShape:  # noqa: ARG001 — the reason goes into the log
    """End a key. Sessions that it opened end with it."""
    return _key(await call.system.access.keys.revoke(await _mine(call)))


async def _mine(call: Call) -> KeyId:
    """The key a path names, if it lies within the caller's scope."""
    key_id = KeyId(call.parameters["key_id"][:NAME_CHARS_MAX])
    if not key_id.isprintable():
        raise KeyUnknown(key_id="?")
    key = await call.system.access.keys.get(key_id)
    if call.principal.project not in (None, key.project):
        raise KeyUnknown(key_id=key_id)
    return key_id


def _issued(issued: Issued) -> w.IssuedShape:
    return w.IssuedShape(key=_key(issued.key), secret=issued.secret)


def _key(key: ApiKey) -> w.KeyShape:
    return w.KeyShape(
        key_id=key.key_id,
        name=key.name,
        role=key.role,
        project=key.project,
        created_at=rfc3339(key.created_at_ms),
        created_by=key.created_by,
        expires_at=instant(key.expires_at_ms),
        last_used_at=instant(key.last_used_ms),
        revoked_at=instant(key.revoked_at_ms),
        old_secret_until=instant(key.old_until_ms),
    )
