"""The server as one ASGI application."""

from collections.abc import Iterable
from importlib.resources import files
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from homeostat.app.assemble import System
from homeostat.core.errors import (
    HomeostatError,
    InvalidRequest,
    MalformedPayload,
    MethodNotAllowed,
    RouteUnknown,
)
from homeostat.server import (
    access,
    audit,
    budgets,
    dashboard,
    event_socket,
    events,
    fleet,
    gateway,
    immune,
    immune_approvals,
    immune_baseline,
    immune_memory,
    ledger,
    login,
    oidc,
    openapi,
    operations,
    orders,
    otlp,
    overview,
    prompts,
    receipts,
    red_button,
    runs,
    status_socket,
    tools,
    treatments,
    turns,
    webhooks,
    why,
    workers,
)
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.doorkeeper import Doorkeeper
from homeostat.server.edge import Edge, traceparent
from homeostat.server.endpoints import Endpoint, Routes
from homeostat.server.error_pages import error_routes
from homeostat.server.health import health_routes
from homeostat.server.metrics import Metrics
from homeostat.server.patience import Patience
from homeostat.server.problems import problem
from homeostat.server.routing import Router

HTML = b"text/html; charset=utf-8"
CONTENT_SECURITY_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; frame-ancestors 'none'"
)


def table_of(app: FastAPI | None = None, metrics: Metrics | None = None) -> list[Endpoint]:
    """Every route there is. Without a server behind it, it is there to be read: by the docs, and by tests."""
    endpoints: list[Endpoint] = [
        *turns.routes,
        *workers.routes,
        *tools.routes,
        *fleet.routes,
        *gateway.routes,
        *budgets.routes,
        *immune.routes,
        *immune_approvals.routes,
        *immune_baseline.routes,
        *treatments.routes,
        *immune_memory.routes,
        *access.routes,
        *login.routes,
        *oidc.routes,
        *audit.routes,
        *otlp.routes,
        *overview.routes,
        *prompts.routes,
        *events.routes,
        *dashboard.routes,
        *runs.routes,
        *red_button.routes,
        *ledger.routes,
        *orders.routes,
        *webhooks.routes,
        *receipts.routes,
        *why.routes,
        *operations.routes,
        *health_routes(metrics),
    ]
    endpoints += error_routes(endpoints)
    return [*endpoints, *_documentation(app or FastAPI(), endpoints)]


def create_app(system: System) -> Edge:
    """Everything under one roof. Rooms add rows to the table, or routers of their own to the framework."""
    patience = Patience()
    metrics = Metrics(system, patience)
    app = FastAPI(title=openapi.TITLE, openapi_url=None, docs_url=None, redoc_url=None)
    endpoints = table_of(app, metrics)
    app.state.system = system
    app.state.patience = patience
    router = Router(endpoints)
    sockets = {
        status_socket.PATH: status_socket.StatusSocket(system),
        event_socket.PATH: event_socket.EventSocket(system),
    }
    _explain_errors(app, system, router)
    # Around the framework and not inside it: what the table answers never pays for the framework's layers.
    return Edge(
        app,
        system=system,
        router=router,
        metrics=metrics,
        patience=patience,
        sockets=sockets,
        doorkeeper=Doorkeeper(system, endpoints),
    )


def _documentation(app: FastAPI, endpoints: Iterable[Endpoint]) -> Routes:
    """The API description, and a page that shows it without asking anybody else on the network."""
    routes = Routes("documentation")
    described = tuple(endpoints)
    made: dict[str, bytes] = {}

    @routes.plain("GET", "/openapi.json")
    async def read_openapi(call: Call) -> Answer:  # noqa: ARG001 — the signature is every endpoint's
        """This description."""
        if "openapi" not in made:
            document = openapi.merge(openapi.describe(described), app.openapi())
            made["openapi"] = msgspec.json.encode(document)
        return Answer(200, made["openapi"])

    for path, name, media_type in (
        ("/docs", "docs.html", HTML),
        ("/docs/docs.js", "docs.js", b"text/javascript; charset=utf-8"),
        ("/docs/docs.css", "docs.css", b"text/css; charset=utf-8"),
    ):
        _page(routes, path, name, media_type)
    return routes


def _page(routes: Routes, path: str, name: str, media_type: bytes) -> None:
    content = files("homeostat.server").joinpath("pages", name).read_bytes()
    headers = ((b"content-security-policy", CONTENT_SECURITY_POLICY),)

    @routes.plain("GET", path, media_type=media_type.partition(b";")[0].decode())
    async def read_page(call: Call) -> Answer:  # noqa: ARG001
        """The API, for people to read."""
        return Answer(200, content, media_type, headers)


def _explain_errors(app: FastAPI, system: System, router: Router) -> None:
    """What the framework finds wrong is told in the same words as what we find wrong."""

    def respond(request: Request, error: HomeostatError) -> Response:
        call = Call(request.scope, request.receive, parameters={}, system=system, patience=app.state.patience)
        trace_id = call.trace_id or system.ids.trace()
        answer = problem(error, trace_id)
        headers = {name.decode(): value.decode() for name, value in answer.headers}
        headers |= {
            "traceparent": traceparent(trace_id, system.ids.span()).decode(),
            "x-content-type-options": "nosniff",
        }
        return Response(answer.body, answer.status, headers, answer.media_type.decode())

    async def known(request: Request, error: Exception) -> Response:
        assert isinstance(error, HomeostatError)
        return respond(request, error)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first: dict[str, Any] = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        return respond(request, MalformedPayload(field=place or "body", problem=first["msg"]))

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.url.path
        allowed = router.allowed(request.scope.get("raw_path") or path.encode())
        if error.status_code == 405 or (error.status_code == 404 and allowed):
            named = ", ".join(allowed) or (error.headers or {}).get("allow", "")
            return respond(request, MethodNotAllowed(method=request.method, path=path, allowed=named))
        if error.status_code == 404:
            return respond(request, RouteUnknown(path=path))
        return respond(request, InvalidRequest(problem=str(error.detail).rstrip(".")))

    app.add_exception_handler(HomeostatError, known)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, refused)
