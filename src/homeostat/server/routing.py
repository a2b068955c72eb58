"""From a method and a path to an endpoint, in as many steps as the path has parts."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from homeostat.core.errors import MalformedPayload
from homeostat.server.endpoints import Endpoint


@dataclass(slots=True)
class _Node:
    literal: dict[str, "_Node"] = field(default_factory=dict[str, "_Node"])
    named: "_Node | None" = None
    name: str = ""
    endpoints: dict[str, Endpoint] = field(default_factory=dict[str, Endpoint])


class Router:
    """A tree of path parts; a literal part is preferred to a named one."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._root = _Node()
        for endpoint in endpoints:
            self._add(endpoint)

    def _add(self, endpoint: Endpoint) -> None:
        node = self._root
        for part in endpoint.path.strip("/").split("/"):
            if part.startswith("{"):
                node.named = node.named or _Node()
                node = node.named
                assert node.name in {"", part[1:-1]}, f"{endpoint.path} names a part that has another name elsewhere"
                node.name = part[1:-1]
            else:
                node = node.literal.setdefault(part, _Node())
        assert endpoint.method not in node.endpoints, f"{endpoint.method} {endpoint.path} exists twice"
        node.endpoints[endpoint.method] = endpoint

    def find(self, method: str, raw_path: bytes) -> tuple[Endpoint, dict[str, str]] | None:
        """The endpoint for a request and its path's named parts; None if there is none here."""
        parameters: dict[str, str] = {}
        node = _walk(self._root, _parts(raw_path), 0, parameters)
        endpoint = node.endpoints.get("GET" if method == "HEAD" else method) if node is not None else None
        if endpoint is None:
            return None
        for name, part in parameters.items():
            if "%" in part:
                parameters[name] = _unquote(name, part)
        return endpoint, parameters

    def allowed(self, raw_path: bytes) -> list[str]:
        """The methods a path knows."""
        node = _walk(self._root, _parts(raw_path), 0, {})
        return sorted(node.endpoints) if node is not None else []


def _parts(raw_path: bytes) -> list[str]:
    return raw_path.decode("ascii", "replace").strip("/").split("/")


def _walk(node: _Node, parts: list[str], depth: int, parameters: dict[str, str]) -> _Node | None:
    """Follow a path. A literal part that leads nowhere may still be somebody's name."""
    if depth == len(parts):
        return node if node.endpoints else None
    part = parts[depth]
    following = node.literal.get(part)
    if following is not None and (found := _walk(following, parts, depth + 1, parameters)) is not None:
        return found
    if (following := node.named) is None or not part:
        return None
    parameters[following.name] = part
    return _walk(following, parts, depth + 1, parameters)


def _unquote(name: str, part: str) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError as problem:
        raise MalformedPayload(field=name, problem="it is not UTF-8") from problem
