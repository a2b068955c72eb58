"""The API description, made from the same rows that answer requests."""

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

import homeostat
from homeostat.core.errors import HomeostatError, InternalError, MalformedPayload, PayloadTooLarge
from homeostat.core.limits import IDEMPOTENCY_KEY_CHARS_MAX
from homeostat.core.wire.answers import Problem
from homeostat.server.endpoints import Endpoint
from homeostat.server.problems import PROBLEM_TYPE

Document = dict[str, Any]

TITLE: Final = "Homeostat"
DESCRIPTION: Final = (
    "Keeps a fleet of AI agents alive, bounded and healthy. "
    "Errors are `application/problem+json` with a stable `code`. "
    "Every POST takes an `Idempotency-Key`: repeated with the same body it answers as it did the first time. "
    "A request belongs to the project of its `X-Homeostat-Project` header, or of `?project=`, or to the default one."
)
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


def describe(endpoints: Iterable[Endpoint]) -> Document:
    """Paths and schemas of the endpoints, in OpenAPI 3.1."""
    endpoints = tuple(endpoints)
    shapes = list(dict.fromkeys(shape for e in endpoints for shape in (_body(e), e.gives, Problem) if shape))
    queries = list(dict.fromkeys(e.takes for e in endpoints if e.takes and e.method == "GET"))
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
            "schemas": {**framework.get("components", {}).get("schemas", {}), **ours["components"]["schemas"]}
        },
    }


def _operation(endpoint: Endpoint, query: list[Document], gives: Document | None) -> Document:
    named = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(endpoint.path)
    ]
    common = [_PROJECT] if endpoint.path.startswith("/v1/") else []
    if endpoint.method == "POST":
        common = [*common, _IDEMPOTENCY]
    operation: Document = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "parameters": [*named, *query, *common],
        "responses": {str(endpoint.status): _success(endpoint, gives), **_problems(endpoint)},
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
    return None if endpoint.method == "GET" else endpoint.takes


def _success(endpoint: Endpoint, schema: Document | None) -> Document:
    if schema is None:
        if endpoint.status == 204:
            return {"description": "Done."}
        return {"description": endpoint.summary, "content": {endpoint.media_type: {"schema": {"type": "string"}}}}
    return {"description": endpoint.summary, "content": {endpoint.media_type: {"schema": schema}}}


def _problems(endpoint: Endpoint) -> Document:
    """The errors an endpoint may answer with, by status."""
    errors: list[type[HomeostatError]] = [*endpoint.errors, InternalError]
    if endpoint.takes is not None:
        errors += [MalformedPayload] if endpoint.method == "GET" else [MalformedPayload, PayloadTooLarge]
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


def _query_parameters(schema: Document) -> list[Document]:
    required = set(schema.get("required", ()))
    return [
        {"name": name, "in": "query", "required": name in required, "schema": member}
        for name, member in schema["properties"].items()
    ]
