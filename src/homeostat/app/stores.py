"""The store that a URL names: its engine, the keepers that stand on it, and how far its schema is."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from homeostat.adapters.stores.sqlite import (
    SqliteAccess,
    SqliteEnforcement,
    SqliteEngine,
    SqliteFleet,
    SqliteGateway,
    SqliteImmune,
    SqliteLedger,
    SqliteMemory,
    SqliteRuns,
    SqliteTools,
    SqliteTurns,
)
from homeostat.adapters.stores.statements import migrations
from homeostat.app.timekeeper import Timekeeper
from homeostat.core.clock import StoreClock, SystemClock
from homeostat.core.errors import SettingInvalid
from homeostat.core.ports.access import AccessKeeper
from homeostat.core.ports.fleet import RegistryStore
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.ports.immune import EnforcementStore, ImmuneStore
from homeostat.core.ports.ledger import LedgerStore
from homeostat.core.ports.memory import MemoryKeeper
from homeostat.core.ports.runs import RunStore
from homeostat.core.ports.store import TurnStore
from homeostat.core.ports.tools import ToolKeeper

if TYPE_CHECKING:
    from homeostat.adapters.stores.postgres import PostgresEngine

log = logging.getLogger(__name__)

STORE_FILE = "homeostat.db"


@dataclass(frozen=True, slots=True)
class Schema:
    """How far a store's schema is. `unknown` are migrations that only a newer version has.

    `clock_ms` is how far the clock of a store that has one is ahead of this machine's; 0 if the two agree.
    """

    store: str
    applied: list[str]
    pending: list[str]
    unknown: list[str]
    clock_ms: int | None = None


def embedded_url(data_dir: Path) -> str:
    """The store of whoever names none."""
    return f"sqlite://{data_dir.absolute() / STORE_FILE}"


async def open_engine(url: str | None) -> "SqliteEngine | PostgresEngine":
    """The engine a URL names, open and migrated; None keeps everything in memory. Whoever opens it closes it."""
    engine = _engine(url)
    try:
        await engine.open()
        if newer := _unknown(await engine.applied(), _known(url)):
            log.warning("a newer version has changed the store, which this one may misread: %s", ", ".join(newer))
    except BaseException:
        await engine.close()
        raise
    return engine


def _known(url: str | None) -> list[str]:
    """The migrations that this version has for a store."""
    engine = "sqlite" if url is None or _sqlite_path(url) is not None else "postgres"
    return [f"{number:04d}_{name}" for number, name, _ in migrations(engine)]


def _unknown(applied: list[str], known: list[str]) -> list[str]:
    return [name for name in applied if name not in known]


def turn_store(engine: "SqliteEngine | PostgresEngine") -> TurnStore:
    if isinstance(engine, SqliteEngine):
        return SqliteTurns(engine)
    from homeostat.adapters.stores.postgres import PostgresTurns  # noqa: PLC0415 — a driver is loaded where it is used

    return PostgresTurns(engine)


def registry_store(engine: "SqliteEngine | PostgresEngine") -> RegistryStore:
    if isinstance(engine, SqliteEngine):
        return SqliteFleet(engine)
    from homeostat.adapters.stores.postgres import PostgresFleet  # noqa: PLC0415 — a driver is loaded where it is used

    return PostgresFleet(engine)


def gateway_store(engine: "SqliteEngine | PostgresEngine") -> GatewayStore:
    if isinstance(engine, SqliteEngine):
        return SqliteGateway(engine)
    from homeostat.adapters.stores.postgres import PostgresGateway  # noqa: PLC0415 — a driver is loaded where it is used

    return PostgresGateway(engine)


def immune_store(engine: "SqliteEngine | PostgresEngine") -> ImmuneStore:
    if isinstance(engine, SqliteEngine):
        return SqliteImmune(engine)
    from homeostat.adapters.stores.postgres import PostgresImmune  # noqa: PLC0415 — a driver is loaded where it is used

    return PostgresImmune(engine)


def ledger_store(engine: "SqliteEngine | PostgresEngine") -> LedgerStore:
    if isinstance(engine, SqliteEngine):
        return SqliteLedger(engine)
    from homeostat.adapters.stores.postgres import PostgresLedger  # noqa: PLC0415 — a driver is loaded where it is used

    return PostgresLedger(engine)


def access_store(engine: "SqliteEngine | PostgresEngine") -> AccessKeeper:
    if isinstance(engine, SqliteEngine):
        return SqliteAccess(engine)
    from homeostat.adapters.stores.postgres import PostgresAccess  # noqa: PLC0415 — a driver is loaded where it is used

    return PostgresAccess(engine)


def enforcement_store(engine: "SqliteEngine | PostgresEngine") -> EnforcementStore:
    if isinstance(engine, SqliteEngine):
        return SqliteEnforcement(engine)
    from homeostat.adapters.stores.postgres import PostgresEnforcement  # noqa: PLC0415 — loaded where it is used

    return PostgresEnforcement(engine)


def memory_keeper(engine: "SqliteEngine | PostgresEngine") -> MemoryKeeper:
    if isinstance(engine, SqliteEngine):
        return SqliteMemory(engine)
    from homeostat.adapters.stores.postgres import PostgresMemory  # noqa: PLC0415 — a driver is loaded where it is used

    return PostgresMemory(engine)


def tool_keeper(engine: "SqliteEngine | PostgresEngine") -> ToolKeeper:
    if isinstance(engine, SqliteEngine):
        return SqliteTools(engine)
    from homeostat.adapters.stores.postgres import PostgresTools  # noqa: PLC0415 — a driver is loaded where it is used

    return PostgresTools(engine)


def run_store(engine: "SqliteEngine | PostgresEngine") -> RunStore:
    if isinstance(engine, SqliteEngine):
        return SqliteRuns(engine)
    from homeostat.adapters.stores.postgres import PostgresRuns  # noqa: PLC0415 — a driver is loaded where it is used

    return PostgresRuns(engine)


async def migrate(url: str) -> list[str]:
    """Bring a store's schema up to date; returns what was applied."""
    engine = _engine(url)
    try:
        return await engine.open()
    finally:
        await engine.close()


async def schema(url: str) -> Schema:
    """How far a store's schema is, without changing anything: a file that is not there is not made."""
    path = _sqlite_path(url)
    known = _known(url)
    applied: list[str] = []
    clock_ms = None
    if path is None or path.exists():
        engine = _engine(url)
        try:
            await engine.connect()
            applied = await engine.applied()
            if not isinstance(engine, SqliteEngine):
                keeper = Timekeeper(StoreClock(SystemClock()), engine.time_ms)
                await keeper.open()
                clock_ms = keeper.clock.offset_ms
        finally:
            await engine.close()
    pending = [name for name in known if name not in applied]
    return Schema(place(url), applied, pending, _unknown(applied, known), clock_ms)


def require(url: str) -> None:
    """Refuse to make a store where somebody means to read one."""
    path = _sqlite_path(url)
    if path is not None and not path.exists():
        raise SettingInvalid(setting="data_dir", problem=f"there is no store at {path}")


def place(url: str | None) -> str:
    """Where a store is, in words that may be shown: no credentials."""
    if url is None:
        return "memory, forgotten at the end"
    if (path := _sqlite_path(url)) is not None:
        return str(path)
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


def _engine(url: str | None) -> "SqliteEngine | PostgresEngine":
    if url is None:
        return SqliteEngine(None)
    if (path := _sqlite_path(url)) is not None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            raise SettingInvalid(setting="the store's place", problem=f"{path.parent}: {problem.strerror}") from problem
        return SqliteEngine(path)
    from homeostat.adapters.stores.postgres import PostgresEngine  # noqa: PLC0415 — a driver is loaded where it is used

    return PostgresEngine(url)


def _sqlite_path(url: str) -> Path | None:
    """The file of a SQLite store; None for one on PostgreSQL."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite" and len(parts.path) > 1:
        return Path(parts.path)
    if parts.scheme not in {"postgresql", "postgres"}:
        raise SettingInvalid(setting="store_url", problem="it must be postgresql://… or sqlite:///path")
    return None
