"""The upstreams that settings name: what each is called, where it is, and the key that only the gateway has."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit, urlunsplit

from homeostat.core.addresses import check_ports
from homeostat.core.errors import SettingInvalid
from homeostat.core.ports.upstream import Upstream
from homeostat.core.records.price import Price, Rate
from homeostat.gateway.routes import Family, Outlet

SIMULATED: Final = "simulated"
KNOWN: Final = {"openai": "https://api.openai.com", "anthropic": "https://api.anthropic.com"}
# Paths of the server itself; an upstream of such a name would hide them.
RESERVED: Final = frozenset(
    {"api", "assets", "demo", "docs", "livez", "metrics", "openapi.json", "otlp", "readyz", "ui", "v1"}
)
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_SCHEMES: Final = ("http", "https", "anthropic+http", "anthropic+https", "replay", SIMULATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSetting:
    """One upstream by its name. `recording` is the file that answers in its place."""

    name: str
    family: Family
    url: str
    key: str = field(default="", repr=False)
    recording: Path | None = None

    @property
    def simulated(self) -> bool:
        return not self.url and self.recording is None

    @property
    def place(self) -> str:
        """Where it is, in words that may be shown."""
        if self.simulated:
            return SIMULATED
        if not self.url:
            return f"recordings in {self.recording}"
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


NONE_CONFIGURED: Final = (
    UpstreamSetting(name="openai", family=Family.OPENAI, url=""),
    UpstreamSetting(name="anthropic", family=Family.ANTHROPIC, url=""),
)
"""Who answers when nobody was named."""


def read_upstreams(text: str) -> tuple[UpstreamSetting, ...]:
    """Read `openai, local=http://127.0.0.1:11434, claude=anthropic+https://…`."""
    if text in {"", SIMULATED}:
        return NONE_CONFIGURED
    found: dict[str, UpstreamSetting] = {}
    for entry in text.replace(",", " ").split():
        name, _, url = entry.partition("=")
        if not _NAME.fullmatch(name) or name in RESERVED:
            raise ValueError(f"{name!r} cannot be the name of an upstream")
        if name in found:
            raise ValueError(f"{name!r} is named twice")
        found[name] = _read(name, url or KNOWN.get(name, ""))
    return tuple(found.values())


def _read(name: str, url: str) -> UpstreamSetting:
    scheme, _, rest = url.partition(":")
    if scheme not in _SCHEMES:
        raise ValueError(f"{name} needs a URL that begins with http: or https:, replay:FILE, or {SIMULATED}")
    family = Family.ANTHROPIC if name.startswith("anthropic") or scheme.startswith("anthropic+") else Family.OPENAI
    if scheme == SIMULATED:
        return UpstreamSetting(name=name, family=family, url="")
    if scheme == "replay":
        return UpstreamSetting(name=name, family=family, url="", recording=Path(rest).expanduser())
    check_ports(url.removeprefix("anthropic+"))
    # Clients ask for /NAME/v1/…, so the version is theirs to say.
    return UpstreamSetting(
        name=name,
        family=family,
        url=url.removeprefix("anthropic+").rstrip("/").removesuffix("/v1"),
    )


def with_keys(upstreams: tuple[UpstreamSetting, ...], environment: Mapping[str, str]) -> tuple[UpstreamSetting, ...]:
    """Give each its key: HOMEOSTAT_NAME_API_KEY, or where the SDKs of OpenAI and Anthropic look for theirs."""
    return tuple(replace(one, key=_key(one, environment)) if one.url else one for one in upstreams)


def _key(upstream: UpstreamSetting, environment: Mapping[str, str]) -> str:
    name = upstream.name.upper().replace("-", "_")
    key = environment.get(f"HOMEOSTAT_{name}_API_KEY", "")
    if not key and upstream.name in KNOWN:
        key = environment.get(f"{name}_API_KEY", "")
    if not key and upstream.url in KNOWN.values():
        raise SettingInvalid(
            setting="upstreams", problem=f"{upstream.name} needs a key in HOMEOSTAT_{name}_API_KEY or {name}_API_KEY"
        )
    return key


def open_outlets(
    settings: Sequence[UpstreamSetting],
    *,
    answer_seconds: float,
    record_dir: Path | None = None,
    simulated: Upstream | None = None,
) -> list[Outlet]:
    """The upstreams as the gateway uses them; with a directory, what they answer is written down there.

    `simulated` answers in the place of those that are.
    """
    return [
        Outlet(
            name=one.name,
            family=one.family,
            upstream=_recorded(_chosen(one, answer_seconds, simulated), one.name, record_dir),
            provider=one.name,
            asks_usage=one.family is Family.OPENAI,
        )
        for one in settings
    ]


def _chosen(setting: UpstreamSetting, answer_seconds: float, simulated: Upstream | None) -> Upstream:
    return simulated if simulated is not None and setting.simulated else _open(setting, answer_seconds)


def _open(setting: UpstreamSetting, answer_seconds: float) -> Upstream:
    from homeostat.adapters.upstreams.http import HttpLimits, HttpUpstream  # noqa: PLC0415 — loaded where it is used
    from homeostat.adapters.upstreams.replay import ReplayUpstream, read_recordings  # noqa: PLC0415
    from homeostat.adapters.upstreams.simulated.faults import FaultyUpstream  # noqa: PLC0415

    if setting.simulated:
        return FaultyUpstream()
    if not setting.url:
        assert setting.recording is not None
        return ReplayUpstream(read_recordings(setting.recording))
    authorization: tuple[bytes, bytes] | None = None
    if setting.key:
        anthropic = setting.family is Family.ANTHROPIC
        name, value = (b"x-api-key", setting.key) if anthropic else (b"authorization", f"Bearer {setting.key}")
        authorization = (name, value.encode())
    return HttpUpstream(
        name=setting.name,
        url=setting.url,
        authorization=authorization,
        secret=setting.key,
        limits=HttpLimits(first_byte_seconds=answer_seconds),
    )


def _recorded(upstream: Upstream, name: str, record_dir: Path | None) -> Upstream:
    if record_dir is None:
        return upstream
    from homeostat.adapters.upstreams.replay import RecordingUpstream  # noqa: PLC0415 — loaded where it is used

    record_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return RecordingUpstream(upstream, record_dir / f"{name}.jsonl")


def read_prices(path: Path | None) -> dict[str, Price]:
    """Prices that overrule the list: `{"model": {"input": 1.25, "output": 10}}`, in dollars per million tokens."""
    if path is None:
        return {}
    try:
        given: object = json.loads(path.read_text())
        return {str(name): _price(str(name), price) for name, price in cast("dict[str, object]", given).items()}
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as problem:
        raise SettingInvalid(setting="prices", problem=f"{path}: {problem!r}") from problem


def _price(model: str, given: object) -> Price:
    rates = cast("dict[str, float]", given)
    if strange := set(rates) - {"input", "output", "cache_read", "cache_write"}:
        raise ValueError(f"{model}: {', '.join(sorted(strange))} means nothing")
    micros = {name: -int(-rate * 1_000_000 // 1) for name, rate in rates.items()}
    if min(micros.values()) < 0:
        raise ValueError(f"{model}: a price cannot be negative")
    fresh = micros["input"]
    rate = Rate(fresh, micros.get("output", 0), micros.get("cache_read", fresh), micros.get("cache_write", fresh))
    return Price(model, rate)
