"""The API description, made from the same rows that answer requests."""

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

import homeostat
from homeostat.access.authority import TABLE
from homeostat.access.errors import RequestUnderWay, TokenMissing, VersionStale
from homeostat.core.errors import (
    AgentGone,
    Forbidden,
    HomeostatError,
    IdempotencyKeyReused,
    InternalError,
    InvalidRequest,
    MalformedPayload,
    OriginRefused,
    Overloaded,
    PayloadTooLarge,
    ShuttingDown,
    StoreUnavailable,
    Unauthenticated,
)
from homeostat.core.filter import FilterInvalid
from homeostat.core.limits import IDEMPOTENCY_KEY_CHARS_MAX
from homeostat.core.wire.answers import Problem
from homeostat.core.wire.gateway import RehearsalShape
from homeostat.core.wire.operations import OperationShape
from homeostat.core.wire.orders import BlastShape
from homeostat.server.blast import EFFECTS
from homeostat.server.endpoints import IN_THE_QUERY, Endpoint
from homeostat.server.operations import LONG
from homeostat.server.problems import PROBLEM_TYPE
from homeostat.server.repeats import KEPT_WITH_THE_WORK, NEED_NO_KEY

Document = dict[str, Any]

TITLE: Final = "Homeostat"
DESCRIPTION: Final = (
    "Keeps a fleet of AI agents alive, bounded and healthy. "
    "Errors are `application/problem+json` with a stable `code`. "
    "A POST takes an `Idempotency-Key`: "
    "repeated by the same caller with the same body it answers as it did the first time. "
    "Where none is named, as for beats and claims, a request may be repeated without. "
    "A request belongs to the project of its `X-Homeostat-Project` header, or of `?project=`, or to the default one."
)
ALWAYS: Final = (Problem, BlastShape, RehearsalShape)  # shapes that rows need not name
_REF: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"{(\w+)}")

_PROJECT: Final = {
    "name": "X-Homeostat-Project",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "default": "default"},
}
_IDEMPOTENCY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_CHARS_MAX},
}

_IF_MATCH: Final = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": "The ETag under which you saw the object; if it was changed since, nothing is done.",
    "schema": {"type": "string"},
}
_PREFER: Final = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "`respond-async`: answer at once with an operation, whose `result` will be the answer.",
    "schema": {"type": "string", "enum": ["respond-async"]},
}
_DRY_RUN: Final = {
    "name": "dry_run",
    "in": "query",
    "required": False,
    "description": "Only tell what would happen, and to whom.",
    "schema": {"type": "boolean", "default": False},
}


def describe(endpoints: Iterable[Endpoint]) -> Document:
    """Paths and schemas of the endpoints, in OpenAPI 3.1."""
    endpoints = tuple(endpoints)
    shapes = list(dict.fromkeys(shape for e in endpoints for shape in (_body(e), e.gives, *ALWAYS) if shape))
    queries = list(dict.fromkeys(e.takes for e in endpoints if e.takes and e.method in IN_THE_QUERY))
    schemas, components = msgspec.json.schema_components([*shapes, *queries], ref_template=_REF)
    given = dict(zip([*shapes, *queries], schemas, strict=True))
    parameters: dict[Any, list[Document]] = {query: _query_parameters(components[query.__name__]) for query in queries}
    for query in queries:
        del components[query.__name__]
    paths: dict[str, Document] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, parameters.get(endpoint.takes, []), given.get(endpoint.gives))
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {"paths": paths, "components": {"schemas": components}}


def merge(ours: Document, framework: Document) -> Document:
    """One description of everything this server answers."""
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": homeostat.__version__, "description": DESCRIPTION},
        "paths": {**framework.get("paths", {}), **ours["paths"]},
        "components": {
            "schemas": {**framework.get("components", {}).get("schemas", {}), **ours["components"]["schemas"]},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "The key of a person, program or agent."},
                "session": {"type": "apiKey", "in": "cookie", "name": "homeostat_session"},
            },
        },
        "security": [{}, {"key": []}, {"session": []}],
    }


def _operation(endpoint: Endpoint, query: list[Document], gives: Document | None) -> Document:
    named = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(endpoint.path)
    ]
    common = [_PROJECT] if endpoint.path.startswith("/v1/") else []
    row = TABLE.get(endpoint.name)
    if endpoint.method == "POST" and endpoint.name not in NEED_NO_KEY:
        common = [*common, _IDEMPOTENCY]
    if row is not None and row.shows:
        common = [*common, _IF_MATCH]
    if row is not None and row.dry_run and "dry_run" not in {one["name"] for one in query}:
        common = [*common, _DRY_RUN]
    answers: Document = {str(endpoint.status): _success(endpoint, gives), **_problems(endpoint)}
    if endpoint.name in LONG:
        common = [*common, _PREFER]
        begun = {"application/json": {"schema": {"$ref": _REF.format(name=OperationShape.__name__)}}}
        answers["202"] = {"description": "It is under way: see the operation at `Location`.", "content": begun}
    operation: Document = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "parameters": [*named, *query, *common],
        "responses": answers,
    }
    if endpoint.description:
        operation["description"] = endpoint.description
    if (body := _body(endpoint)) is not None:
        content: Document = {"schema": {"$ref": _REF.format(name=body.__name__)}}
        if endpoint.examples:
            content["examples"] = {name: {"value": value} for name, value in endpoint.examples.items()}
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    return operation


def _body(endpoint: Endpoint) -> type[Any] | None:
    return None if endpoint.method in IN_THE_QUERY else endpoint.takes


def _success(endpoint: Endpoint, schema: Document | None) -> Document:
    row = TABLE.get(endpoint.name)
    rehearsed = "dry_run" in getattr(endpoint.gives, "__struct_fields__", ())  # in its own words
    if schema is not None and row is not None and row.dry_run and not rehearsed:
        rehearsal = BlastShape if endpoint.name in EFFECTS else RehearsalShape
        schema = {"anyOf": [schema, {"$ref": _REF.format(name=rehearsal.__name__)}]}
    if schema is None:
        if endpoint.status in {204, 303}:
            return {"description": "Done."}
        return {"description": endpoint.summary, "content": {endpoint.media_type: {"schema": {"type": "string"}}}}
    return {"description": endpoint.summary, "content": {endpoint.media_type: {"schema": schema}}}


def _problems(endpoint: Endpoint) -> Document:
    """The errors an endpoint may answer with, by status."""
    errors = list(dict.fromkeys([*endpoint.errors, *_everywhere(endpoint)]))
    by_status: dict[int, list[type[HomeostatError]]] = {}
    for error in errors:
        by_status.setdefault(error.http_status, []).append(error)
    schema = {"$ref": _REF.format(name=Problem.__name__)}
    return {
        str(status): {
            "description": ", ".join(f"`{error.code}`" for error in kinds),
            "content": {PROBLEM_TYPE.decode(): {"schema": schema}},
        }
        for status, kinds in sorted(by_status.items())
    }


def _everywhere(endpoint: Endpoint) -> list[type[HomeostatError]]:
    """What any route may answer, and what follows from its row in the table of permissions."""
    errors: list[type[HomeostatError]] = [InternalError, OriginRefused]
    if endpoint.path.startswith(("/v1/", "/api/")):
        errors += [MalformedPayload, PayloadTooLarge, StoreUnavailable, Overloaded, ShuttingDown]
        errors += [Unauthenticated, Forbidden, TokenMissing, AgentGone]
    if endpoint.method == "GET" and "q" in getattr(endpoint.takes, "__struct_fields__", ()):
        errors.append(FilterInvalid)
    row = TABLE.get(endpoint.name)
    if endpoint.method == "POST" and endpoint.name not in NEED_NO_KEY:
        errors.append(IdempotencyKeyReused)
        if endpoint.name not in KEPT_WITH_THE_WORK:
            errors.append(RequestUnderWay)
    if row is not None and row.shows:
        errors.append(VersionStale)
    if row is not None and row.audited:
        errors.append(InvalidRequest)
    return errors


def _query_parameters(schema: Document) -> list[Document]:
    required = set(schema.get("required", ()))
    return [
        {"name": name, "in": "query", "required": name in required, "schema": member}
        for name, member in schema["properties"].items()
    ]
