"""Paths find their endpoints, whatever agents are called."""

import pytest

from homeostat.core.errors import MalformedPayload
from homeostat.core.wire.answers import Accepted
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes
from homeostat.server.routing import Router


def made(*paths: tuple[str, str]) -> Router:
    routes = Routes("test")
    for method, path in paths:

        @routes.plain(method, path, gives=Accepted)
        async def handler(call: Call) -> Answer:
            """Do nothing."""
            return Answer(200, b"")

    return Router(routes)


ROUTER = made(
    ("GET", "/livez"),
    ("POST", "/v1/agents/register"),
    ("GET", "/v1/agents/{agent_id}/head"),
    ("POST", "/v1/agents/{agent_id}/inbox"),
    ("GET", "/v1/agents/{agent_id}/inbox"),
)


@pytest.mark.parametrize(
    ("method", "path", "template", "agent_id"),
    [
        ("GET", "/livez", "/livez", None),
        ("HEAD", "/livez", "/livez", None),
        ("POST", "/v1/agents/register", "/v1/agents/register", None),
        ("GET", "/v1/agents/register/head", "/v1/agents/{agent_id}/head", "register"),
        ("GET", "/v1/agents/a%2Fb/head", "/v1/agents/{agent_id}/head", "a/b"),
        ("GET", "/v1/agents/%E6%9D%B1/head", "/v1/agents/{agent_id}/head", "東"),
        ("POST", "/v1/agents/x/inbox/", "/v1/agents/{agent_id}/inbox", "x"),
    ],
)
def test_found(method: str, path: str, template: str, agent_id: str | None) -> None:
    found = ROUTER.find(method, path.encode())
    assert found is not None
    endpoint, parameters = found
    assert (endpoint.path, parameters.get("agent_id")) == (template, agent_id)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/v1"),
        ("GET", "/v1/agents//head"),
        ("GET", "/v1/agents/x"),
        ("GET", "/v1/agents/x/head/more"),
        ("PUT", "/v1/agents/x/inbox"),
        ("GET", "/v1/agents/register"),
    ],
)
def test_not_found(method: str, path: str) -> None:
    assert ROUTER.find(method, path.encode()) is None


def test_what_a_path_allows() -> None:
    assert ROUTER.allowed(b"/v1/agents/x/inbox") == ["GET", "POST"]
    assert ROUTER.allowed(b"/nowhere") == []


def test_a_name_that_is_no_text() -> None:
    with pytest.raises(MalformedPayload, match="agent_id"):
        ROUTER.find("GET", b"/v1/agents/%FF/head")


def test_a_route_exists_once() -> None:
    with pytest.raises(AssertionError, match="twice"):
        made(("GET", "/x"), ("GET", "/x"))
    with pytest.raises(AssertionError, match="another name"):
        made(("GET", "/x/{a}"), ("GET", "/x/{b}/y"))
