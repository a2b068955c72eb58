"""Lua lives in files, one script each; this reads them once and runs them in one round trip."""

import hashlib
from collections.abc import Awaitable
from functools import cache
from importlib.resources import files
from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError

from homeostat.core.errors import StatusUnavailable
from homeostat.core.limits import STATUS_TIMEOUT_SECONDS


@cache
def scripts() -> dict[str, str]:
    """Every script by its file's name."""
    folder = files("homeostat.adapters.statuses") / "lua"
    return {
        entry.name.removesuffix(".lua"): entry.read_text("utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".lua")
    }


@cache
def digests() -> dict[str, str]:
    """The names under which the server remembers the scripts."""
    return {name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest() for name, text in scripts().items()}


class ScriptedRedis:
    """A connection to Redis on which scripts run. All that can go wrong there is `StatusUnavailable`."""

    def __init__(self, url: str) -> None:
        # A pooled connection may be one the server has closed since; only that is worth a second try at once.
        retry = Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,))
        self._redis = Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - its keywords are not typed
            url, socket_timeout=STATUS_TIMEOUT_SECONDS, socket_connect_timeout=STATUS_TIMEOUT_SECONDS, retry=retry
        )

    async def run(self, name: str, *values: str | bytes | float) -> Any:
        """Run a script; the server is sent its text only if it does not know it."""
        try:
            return await self.command("EVALSHA", digests()[name], 0, *values)
        except NoScriptError:
            return await self.command("EVAL", scripts()[name], 0, *values)

    async def command(self, *words: str | bytes | float) -> Any:
        try:
            return await cast("Awaitable[Any]", self._redis.execute_command(*words))  # pyright: ignore[reportUnknownMemberType] - its options are not typed
        except NoScriptError:
            raise
        except (RedisError, OSError, RuntimeError) as problem:  # the last is uvloop's word for a socket that was closed
            raise StatusUnavailable(problem=str(problem) or type(problem).__name__) from problem

    async def close(self) -> None:
        await self._redis.aclose()
