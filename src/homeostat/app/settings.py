"""How a Homeostat is set up: one table of settings, read from options and the environment, each with its origin."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from homeostat.app.planners import PlannerSetting, read_planners
from homeostat.app.upstreams import NONE_CONFIGURED, UpstreamSetting, read_upstreams, with_keys
from homeostat.client.keys import default_data_dir
from homeostat.core.addresses import check_ports
from homeostat.core.errors import SettingInvalid
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.limits import (
    AGENT_EXPIRY_SECONDS,
    CALL_RETENTION_SECONDS,
    LEASE_SECONDS,
    LEDGER_RETENTION_SECONDS,
    PLANNER_SECONDS,
    PLANNER_SECONDS_MAX,
    POLICY_OUTAGE_SECONDS,
    RETENTION_SECONDS,
    UPSTREAM_FIRST_BYTE_SECONDS,
)
from homeostat.core.records.access import Role
from homeostat.core.records.enforcement import Mode
from homeostat.gateway.metering import UnknownModel

PREFIX: Final = "HOMEOSTAT_"
PORT_DEFAULT: Final = 7700
IN_CLUSTER: Final = "in-cluster"


class Auth(StrEnum):
    """Who has to log in: nobody (on loopback only), or everybody, by key."""

    NONE = "none"
    KEYS = "keys"


class Origin(StrEnum):
    """Where a setting's value came from; the later one wins."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    OPTION = "option"


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that can be set. Its environment variable is its name in capitals behind the prefix."""

    name: str
    read: Callable[[str], Any]
    summary: str
    default: str

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")


def _text(value: str) -> str:
    if not value.isprintable():
        raise ValueError("it holds characters that cannot be printed")
    return value


def _path(value: str) -> Path:
    return Path(value).expanduser().absolute()


def _port(value: str) -> int:
    number = int(value)
    if not 0 <= number <= 65_535:
        raise ValueError("a port lies between 0 and 65535")
    return number


def _seconds(low: float, high: float) -> Callable[[str], float]:
    def read(value: str) -> float:
        number = float(value)
        if not low <= number <= high:
            raise ValueError(f"it must lie between {low:g} and {high:g} seconds")
        return number

    return read


def _flag(value: str) -> bool:
    word = value.strip().lower()
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"", "0", "false", "no", "off"}:
        return False
    raise ValueError("say yes or no")


def _url(*schemes: str) -> Callable[[str], str | None]:
    def read(value: str) -> str | None:
        if not value:
            return None
        if urlsplit(value).scheme not in schemes:
            raise ValueError(f"it must begin with {' or '.join(scheme + ':' for scheme in schemes)}")
        check_ports(value)
        return value

    return read


def _unknown_model(value: str) -> UnknownModel:
    try:
        return UnknownModel(value.strip().lower())
    except ValueError:
        raise ValueError(f"it must be {', '.join(UnknownModel)}") from None


def _auth(value: str) -> Auth:
    try:
        return Auth(value.strip().lower())
    except ValueError:
        raise ValueError(f"it must be {' or '.join(Auth)}") from None


def _words(value: str) -> tuple[str, ...]:
    return tuple(word.strip().lower() for word in value.split(",") if word.strip())


def _names(value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _pairs(value: str) -> tuple[tuple[str, Role], ...]:
    """`sre=operator,leads=admin`."""
    try:
        found = [word.rpartition("=") for word in value.split(",") if word.strip()]
        return tuple((name.strip(), Role(role.strip().lower())) for name, _, role in found)
    except ValueError:
        raise ValueError(f"write GROUP=ROLE,…, where a role is {', '.join(Role)}") from None


def _kubernetes(value: str) -> str | None:
    if value == IN_CLUSTER or not value:
        return value or None
    return _url("https", "http")(value)


def _mode(value: str) -> Mode:
    try:
        return Mode(value.strip().lower())
    except ValueError:
        raise ValueError(f"it must be {' or '.join(Mode)}") from None


def _optional_path(value: str) -> Path | None:
    return _path(value) if value else None


def _level(value: str) -> str:
    word = value.strip().lower()
    if word not in {"debug", "info", "warning", "error"}:
        raise ValueError("it must be debug, info, warning or error")
    return word


SETTINGS: Final = (
    Setting("data_dir", _path, "Where the embedded store keeps its file", "$XDG_DATA_HOME/homeostat"),
    Setting("host", _text, "The address to listen on; only loopback needs no login", "127.0.0.1"),
    Setting("port", _port, "The port to listen on; a taken one moves to the next, 0 takes any", str(PORT_DEFAULT)),
    Setting("store_url", _url("postgresql", "postgres", "sqlite"), "postgresql://… instead of the embedded store", ""),
    Setting("bus_url", _url("nats", "tls"), "nats://… to hear of other processes at once", ""),
    Setting("status_url", _url("redis", "rediss", "unix"), "redis://… to keep the fleet's status there", ""),
    Setting("project", _text, "The project that requests belong to which name none", DEFAULT_PROJECT),
    Setting("retention_seconds", _seconds(60, 10 * 365 * 86_400), "How long finished turns stay readable", "604800"),
    Setting("agent_expiry_seconds", _seconds(1, 10 * 365 * 86_400), "How long a dead agent stays listed", "86400"),
    Setting(
        "lease_seconds",
        _seconds(0.5, 3_600),
        "How long a silent worker keeps its turns, and a silent gateway its calls",
        "10",
    ),
    Setting(
        "upstreams",
        read_upstreams,
        "Who answers model calls: openai, anthropic, NAME=URL, …; their keys in HOMEOSTAT_NAME_API_KEY",
        "simulated",
    ),
    Setting("upstream_seconds", _seconds(1, 86_400), "How long an upstream may think before its answer begins", "600"),
    Setting("record_dir", _optional_path, "Where answers are written down by upstream, for NAME=replay:FILE", ""),
    Setting("ledger_key", _optional_path, "The file with the key that signs ledgers; else it lies in data_dir", ""),
    Setting(
        "ledger_retention_seconds",
        _seconds(60, 100 * 365 * 86_400),
        "How long ledgers of runs that ended stay in the store; export what is to be kept",
        "7776000",
    ),
    Setting("replay_modules", _names, "Modules whose agents this server may run again: NAME,…", ""),
    Setting("planners", read_planners, "Functions that plan runs: NAME=module:function,…", ""),
    Setting(
        "planner_seconds",
        _seconds(0.1, PLANNER_SECONDS_MAX),
        "How long such a function, or an agent that plans, may take",
        "300",
    ),
    Setting("prices", _optional_path, "A JSON file of prices that overrule the list", ""),
    Setting("unknown_model", _unknown_model, "A model without a price: refuse, cap or tokens", "tokens"),
    Setting(
        "policy_outage_seconds",
        _seconds(0, 365 * 86_400),
        "How long a gateway that cannot ask the store serves by the policies it knows; then it refuses",
        "5",
    ),
    Setting("call_retention_seconds", _seconds(60, 10 * 365 * 86_400), "How long model calls stay readable", "604800"),
    Setting("docker_socket", _optional_path, "The container engine's socket; agents are labelled homeostat.agent", ""),
    Setting("kubernetes_url", _kubernetes, "https://… or in-cluster, to scale agents labelled homeostat.dev/agent", ""),
    Setting("kubernetes_namespace", _text, "The namespace of those agents", "default"),
    Setting("kubernetes_token_file", _optional_path, "The token for it; the service account's where it is not set", ""),
    Setting("kubernetes_ca_file", _optional_path, "Who vouches for the cluster; as above", ""),
    Setting("enforcement", _mode, "Which ways hold an agent: all that reach it, or the first that is verified", "all"),
    Setting("ephemeral", _flag, "Keep everything in memory and forget it at the end", "no"),
    Setting("believe_runs", _flag, "Let an agent that has no turn name its run (X-Homeostat-Run-Id)", "no"),
    Setting("development", _flag, "Take an agent's word for who it is (X-Agent-Id), as on a laptop", "no"),
    Setting("auth", _auth, "Who has to log in: none (on loopback only), or keys", "none"),
    Setting("allowed_hosts", _words, "Names, besides loopback, under which browsers may reach this server", ""),
    Setting("public_url", _url("http", "https"), "Where browsers reach this server, if a proxy stands before it", ""),
    Setting("oidc_issuer", _url("http", "https"), "The OpenID provider that people log in with", ""),
    Setting("oidc_client_id", _text, "What the provider calls this server", ""),
    Setting("oidc_client_secret", _text, "What proves it to the provider; empty for a public client", ""),
    Setting("oidc_claim", _text, "The claim that says what somebody is", "groups"),
    Setting("oidc_roles", _pairs, "What that makes of them here: GROUP=ROLE,…", ""),
    Setting("log_level", _level, "How much is logged: debug, info, warning or error", "warning"),
)
"""Every setting there is. `homeostat up --help`, the environment and the docs speak of these and no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What was set, and by whom."""

    data_dir: Path = field(default_factory=lambda: default_data_dir(os.environ))
    host: str = "127.0.0.1"
    port: int = PORT_DEFAULT
    store_url: str | None = None
    bus_url: str | None = None
    status_url: str | None = None
    project: str = DEFAULT_PROJECT
    retention_seconds: float = RETENTION_SECONDS
    agent_expiry_seconds: float = AGENT_EXPIRY_SECONDS
    lease_seconds: float = LEASE_SECONDS
    upstreams: tuple[UpstreamSetting, ...] = NONE_CONFIGURED
    upstream_seconds: float = UPSTREAM_FIRST_BYTE_SECONDS
    record_dir: Path | None = None
    ledger_key: Path | None = None
    ledger_retention_seconds: float = LEDGER_RETENTION_SECONDS
    replay_modules: tuple[str, ...] = ()
    planners: tuple[PlannerSetting, ...] = ()
    planner_seconds: float = PLANNER_SECONDS
    prices: Path | None = None
    unknown_model: UnknownModel = UnknownModel.TOKENS
    policy_outage_seconds: float = POLICY_OUTAGE_SECONDS
    call_retention_seconds: float = CALL_RETENTION_SECONDS
    docker_socket: Path | None = None
    kubernetes_url: str | None = None
    kubernetes_namespace: str = "default"
    kubernetes_token_file: Path | None = None
    kubernetes_ca_file: Path | None = None
    enforcement: Mode = Mode.ALL
    ephemeral: bool = False
    believe_runs: bool = False
    development: bool = False
    auth: Auth = Auth.NONE
    allowed_hosts: tuple[str, ...] = ()
    public_url: str | None = None
    oidc_issuer: str | None = None
    oidc_client_id: str = ""
    oidc_client_secret: str = field(default="", repr=False)
    oidc_claim: str = "groups"
    oidc_roles: tuple[tuple[str, Role], ...] = ()
    log_level: str = "warning"
    origins: Mapping[str, Origin] = field(default_factory=lambda: MappingProxyType[str, Origin]({}))

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def alone(self) -> bool:
        """Whether no other process moves turns: a store that was named may be anybody's, also where there is no bus."""
        return self.bus_url is None and self.store_url is None

    def origin(self, name: str) -> Origin:
        return self.origins.get(name, Origin.DEFAULT)


def read_settings(environment: Mapping[str, str], options: Mapping[str, object] | None = None) -> Settings:
    """Put settings together: options that were given, then the environment, then defaults."""
    values: dict[str, Any] = {"data_dir": default_data_dir(environment)}
    origins: dict[str, Origin] = {}
    given = {name: value for name, value in (options or {}).items() if value is not None}
    if strange := set(given) - {setting.name for setting in SETTINGS}:
        raise SettingInvalid(setting=", ".join(sorted(strange)), problem="there is no such setting")
    for setting in SETTINGS:
        if setting.name in given:
            values[setting.name] = _read(setting, setting.option, str(given[setting.name]))
            origins[setting.name] = Origin.OPTION
        elif (text := environment.get(setting.variable)) is not None:
            values[setting.name] = _read(setting, setting.variable, text)
            origins[setting.name] = Origin.ENVIRONMENT
    if "upstreams" in values:
        values["upstreams"] = with_keys(values["upstreams"], environment)
    settings = Settings(**values, origins=MappingProxyType(origins))
    if settings.ephemeral and settings.store_url is not None:
        raise SettingInvalid(setting="--ephemeral", problem="it has no meaning for a store of its own (store_url)")
    return settings


def _read(setting: Setting, called: str, text: str) -> object:
    try:
        return setting.read(text)
    except ValueError as problem:
        raise SettingInvalid(setting=called, problem=str(problem)) from problem


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    return host in {"localhost", "::1"} or (host.startswith("127.") and host.replace(".", "").isdigit())


assert {setting.name for setting in SETTINGS} == {f.name for f in fields(Settings)} - {"origins"}
