"""What a table of agents shows besides their rows: their turns and queues, open questions, what they spent."""

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from homeostat.cli.fleet_view import Beside, Row

if TYPE_CHECKING:
    from collections.abc import Collection

    from homeostat.client.client import Client

PAGE = 500
LOOK_SECONDS = 2.0
NAMED_CHARS_MAX = 400  # a few agents are asked for by name; for more, all are read


async def around(client: "Client", spending: "Spending") -> Beside | None:
    """How agents stand with their turns, and what they spent."""
    await spending.look()
    found = await beside(client)
    return None if found is None else replace(found, today=spending.today)


async def beside(client: "Client", ids: "Collection[str]" = ()) -> Beside | None:
    """How agents stand with their turns; None for whoever may not know, as agents themselves."""
    from homeostat.core.errors import Forbidden

    words = ",".join(f'"{one}"' for one in sorted(ids))
    named = f"agent:{words}" if ids and len(words) <= NAMED_CHARS_MAX and words.count('"') == 2 * len(ids) else ""
    try:
        heads = await every(client, "/v1/heads", "heads", named)
        asked = await every(client, "/v1/immune/approvals", "approvals", "status:pending")
    except Forbidden:
        return None
    return Beside({one["agent_id"]: one for one in heads}, frozenset(one["agent_id"] for one in asked))


async def spent_today(client: "Client") -> dict[str, float]:
    """Dollars since midnight, UTC, by agent."""
    return {one["agent_id"]: one["cost_usd"] for one in await every(client, "/v1/today", "agents", "")}


class Spending:
    """What agents have spent today, read again every so often: the live feed does not tell it."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self.today: dict[str, float] = {}

    def with_cost(self, row: Row) -> Row:
        return row | {"cost_usd_today": self.today.get(row["agent_id"], 0.0)}

    async def look(self) -> None:
        from homeostat.core.errors import Forbidden, Unavailable

        with suppress(Forbidden, Unavailable):  # an agent may not know, and a server that is away comes back
            self.today = await spent_today(self._client)

    async def run(self) -> None:
        import asyncio

        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()


async def every(client: "Client", path: str, items: str, query: str) -> list[Row]:
    """What a list of the API has, page after page."""
    asked: dict[str, object] = {"limit": PAGE, **({"q": query} if query else {})}
    found: list[Row] = []
    while True:
        page: Any = await client.read_json(f"{path}?{urlencode(asked)}")
        found += page[items]
        if page["next_cursor"] is None:
            return found
        asked["cursor"] = page["next_cursor"]
