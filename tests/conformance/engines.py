"""The engines that keepers stand on, and how a suite of checks shows that it can fail."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias, TypeVar

from homeostat.adapters.stores.postgres import PostgresEngine
from homeostat.adapters.stores.sqlite import SqliteEngine

Keeper = TypeVar("Keeper")

Engine: TypeAlias = SqliteEngine | PostgresEngine


async def found_out(
    checks: Iterable[Callable[[Keeper], Awaitable[None]]], wrong: Callable[[SqliteEngine], Keeper]
) -> bool:
    """Whether any of the checks notices a keeper that is wrong on purpose."""
    failed = 0
    for check in checks:
        engine = SqliteEngine(None)
        await engine.open()
        try:
            await check(wrong(engine))
        except (AssertionError, ValueError):
            failed += 1
        finally:
            await engine.close()
    return failed > 0
