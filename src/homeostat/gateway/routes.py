"""Which upstream a path belongs to, and which API it speaks."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import unquote

from homeostat.core.ports.upstream import QuickUpstream, Upstream
from homeostat.core.records.call import Api
from homeostat.gateway.dialects.anthropic_messages import AnthropicMessages
from homeostat.gateway.dialects.openai_chat import OpenAIChat, OpenAICompletions
from homeostat.gateway.dialects.openai_responses import OpenAIResponses
from homeostat.gateway.dialects.shapes import Dialect

PATH_CHARS_KEPT: Final = 200
BLANK: Final = "".join(map(chr, range(33)))


class Family(StrEnum):
    """Whose interface an upstream speaks."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlet:
    """A named upstream. `provider` is its name in the price list, `asks_usage` whether its streams may be asked."""

    name: str
    family: Family
    upstream: Upstream
    provider: str
    asks_usage: bool = True

    @property
    def quick(self) -> QuickUpstream | None:
        """The upstream, if it can be asked without waiting."""
        return self.upstream if isinstance(self.upstream, QuickUpstream) else None

    def below(self, raw_path: bytes) -> bytes:
        """What of a path comes behind the name of this upstream, as written; the name may stand there in escapes."""
        at = 1
        for _ in f"{self.name}/":
            at += 3 if raw_path.startswith(b"%", at) else 1
        return b"/" + raw_path[at:]


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes. Without a dialect it passes unread; `kept` is that of an answer it may ask for again."""

    outlet: Outlet
    api: Api
    dialect: Dialect | None
    quick: QuickUpstream | None = None
    target: bytes = b""  # of a known path, below the upstream's base URL
    path: str = ""  # a known path
    kept: Dialect | None = None


class Routes:
    """The paths the gateway answers: `/NAME/v1/…` for each upstream."""

    def __init__(self, outlets: list[Outlet]) -> None:
        self.outlets = {outlet.name: outlet for outlet in outlets}
        self._known: dict[str, Route] = {}
        self.known: dict[bytes, Route] = {}
        self._plain: dict[tuple[str, str], Route] = {}
        self._below: dict[tuple[str, str], Route] = {}
        self._others: dict[str, Route] = {}
        for outlet in outlets:
            other = Api.ANTHROPIC_OTHER if outlet.family is Family.ANTHROPIC else Api.OPENAI_OTHER
            self._others[outlet.name] = Route(outlet, other, None)
            for path, dialect in _dialects(outlet).items():
                known = f"/{outlet.name}{path}"
                route = Route(outlet, dialect.api, dialect, outlet.quick, path.encode(), known[:PATH_CHARS_KEPT])
                self._known[known] = self.known[known.encode()] = self._plain[outlet.name, _plain(path)] = route
                self._below[outlet.name, _plain(path)] = Route(outlet, other, None, kept=dialect)

    def owns(self, path: str) -> bool:
        """Whether a path is the gateway's to answer."""
        return path.split("/", 2)[1] in self.outlets if path.startswith("/") else False

    def find(self, method: str, path: str) -> Route | None:
        if method == "POST" and (route := self._known.get(path)) is not None:
            return route
        parts = path.split("/", 2)
        other = self._others.get(parts[1]) if len(parts) > 2 else None
        if other is None:
            return None
        plain = _plain(parts[2])
        if "/../" in f"{plain}/":
            return None  # it may lead out of what belongs to this upstream
        if method == "POST" and (route := self._plain.get((parts[1], plain))) is not None:
            return route
        for (outlet, known), below in self._below.items():
            if outlet == parts[1] and f"{plain}/".startswith(f"{known}/"):
                return below
        return other


def _plain(path: str) -> str:
    """A path as the most lenient server reads it: what such a one takes for a known path is held to be that path."""
    parts = [part.partition(";")[0].strip(BLANK) for part in unquote(path).replace("\\", "/").lower().split("/")]
    return "/" + "/".join([part for part in parts if part not in {"", "."}])


def _dialects(outlet: Outlet) -> dict[str, Dialect]:
    if outlet.family is Family.ANTHROPIC:
        return {"/v1/messages": AnthropicMessages()}
    cap_field = "max_completion_tokens" if outlet.provider == "openai" else "max_tokens"
    return {
        "/v1/chat/completions": OpenAIChat(cap_field=cap_field),
        "/v1/responses": OpenAIResponses(),
        "/v1/embeddings": OpenAIChat(Api.OPENAI_EMBEDDINGS),
        "/v1/completions": OpenAICompletions(),
    }
