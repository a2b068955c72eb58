"""A page for every error code, made from the errors themselves: what it means, whether to try again, what to do."""

import html
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec

import homeostat
from homeostat.core.errors import Conflict, HomeostatError, ProtocolViolation, Refused, RouteUnknown, Unavailable
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import Endpoint, Routes
from homeostat.server.problems import problem

HTML: Final = b"text/html; charset=utf-8"
POLICY: Final = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'",
)
TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
_FACT: Final = re.compile(r"{(\w+)")
_ERRORS: Final = re.compile(r"\.(\w*errors|filter|ports\.\w+|runs\.verify)$")

FAMILIES: Final[dict[type[HomeostatError], tuple[str, str]]] = {
    ProtocolViolation: (
        "The request breaks the protocol: what it names is unknown, cannot be read, or cannot be done as things stand.",
        "Do not repeat the request as it is; it would be answered in the same way. Change what it says.",
    ),
    Conflict: (
        "Somebody or something else was first: the object is not any more what it was when you looked.",
        "Read it again, then decide whether you still want it.",
    ),
    Refused: (
        "The request is understood, and a rule, a budget, a policy or your role says no.",
        "Repeating it does not help. Change the rule, raise the budget, or ask somebody who may.",
    ),
    Unavailable: (
        "Something does not answer right now: a store, a bus, a provider, or a server that stops or is overrun.",
        "Try again after `Retry-After`, with the same `Idempotency-Key`: it happens once, however often you ask.",
    ),
}


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """What there is to say about one code."""

    kind: type[HomeostatError]
    routes: tuple[str, ...]

    @property
    def code(self) -> str:
        return self.kind.code

    @property
    def title(self) -> str:
        return self.code.replace("_", " ").capitalize()

    @property
    def message(self) -> str:
        return " ".join((self.kind.__doc__ or "").split())

    @property
    def family(self) -> type[HomeostatError] | None:
        return next((one for one in FAMILIES if issubclass(self.kind, one)), None)

    def example(self) -> str | None:
        """A body as a caller would get it; facts in angle brackets are of the case. None for what never travels."""
        if self.kind.__init__ is not HomeostatError.__init__:
            return None
        facts: dict[str, Any] = {name: f"<{name}>" for name in dict.fromkeys(_FACT.findall(self.message))}
        answer = problem(self.kind(**facts), TRACE)
        return msgspec.json.format(answer.body, indent=2).decode()

    def markdown(self) -> str:
        why, advice = FAMILIES.get(self.family or HomeostatError, ("Something went wrong that nobody foresaw.", ""))
        kind = "" if self.family is None else f", a `{self.family.__name__}`"
        parts = [f"# `{self.code}`", "", f"HTTP {self.kind.http_status}{kind}.", "", "## What it means", ""]
        parts += [f"> {self.message}", "", "## Why it happens", "", why, "", "## What to do", ""]
        parts += [f"{self.kind.hint}\n"] if self.kind.hint else []
        parts += [f"{advice}\n"] if advice else []
        if self.routes:
            parts += ["## Who answers so", "", *(f"- `{route}`" for route in self.routes), ""]
        if (example := self.example()) is not None:
            parts += ["## Example", "", "```json", example, "```", ""]
        return "\n".join(parts)

    def page(self) -> bytes:
        """The same for a browser; nothing in it is anything but text."""
        body: list[str] = []
        text = html.escape(self.markdown())
        for block in re.split(r"\n{2,}", text):
            if block.startswith("```"):
                body.append(f"<pre>{block.removeprefix('```json').removesuffix('```').strip()}</pre>")
            elif block.startswith("#"):
                level = len(block) - len(block.lstrip("#"))
                body.append(f"<h{level}>{_code(block.lstrip('# '))}</h{level}>")
            elif block.startswith("- "):
                items = "".join(f"<li>{_code(line.removeprefix('- '))}</li>" for line in block.splitlines())
                body.append(f"<ul>{items}</ul>")
            elif block.strip():
                quote = block.startswith("&gt; ")
                told = _code(" ".join(block.removeprefix("&gt; ").split()))
                body.append(f"<blockquote>{told}</blockquote>" if quote else f"<p>{told}</p>")
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(self.title)} · Homeostat</title>"
            '<link rel="stylesheet" href="../docs/docs.css"></head>'
            f"<body><main>{''.join(body)}</main></body></html>"
        ).encode()


def _code(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def error_pages(endpoints: Iterable[Endpoint]) -> dict[str, ErrorPage]:
    """A page for every code there is, with the routes that name it."""
    by_code: dict[str, list[str]] = {}
    for endpoint in endpoints:
        for error in endpoint.errors:
            by_code.setdefault(error.code, []).append(f"{endpoint.method} {endpoint.path}")
    return {
        code: ErrorPage(kind, tuple(dict.fromkeys(by_code.get(code, ()))))
        for code, kind in sorted(error_kinds().items())
    }


@cache
def error_kinds() -> dict[str, type[HomeostatError]]:
    """Every error by its code, wherever it is defined."""
    for module in pkgutil.walk_packages(homeostat.__path__, "homeostat."):
        if _ERRORS.search(module.name):
            importlib.import_module(module.name)
    return {kind.code: kind for kind in _below(HomeostatError)}


def _below(kind: type[HomeostatError]) -> list[type[HomeostatError]]:
    found: list[type[HomeostatError]] = []
    for one in kind.__subclasses__():
        if one.__module__.startswith("homeostat.") and not inspect.isabstract(one):
            found += [one, *_below(one)]
    return found


def error_routes(endpoints: Iterable[Endpoint]) -> Routes:
    """Where the `type` of a problem leads."""
    routes = Routes("documentation")
    described = tuple(endpoints)
    made: dict[str, ErrorPage] = {}

    @routes.plain("GET", "/errors/{code}", media_type="text/html", errors=(RouteUnknown,))
    async def read_error_page(call: Call) -> Answer:
        """What an error means, why it happens, and what to do about it."""
        if not made:
            made.update(error_pages(described))
        page = made.get(call.parameters["code"])
        if page is None:
            raise RouteUnknown(path=str(call.scope["path"]))
        return Answer(200, page.page(), HTML, (POLICY,))

    return routes
