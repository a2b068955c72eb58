"""`homeostat events` and `homeostat logs`: what happens, as it happens, and what an agent did."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.nouns import EVENTS_HINT
from homeostat.cli.output import Output, OutputOption
from homeostat.cli.selection import FilterOption, sought

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from homeostat.client.client import Client

Event = dict[str, Any]
CONTROL = frozenset({"hello", "gap", "beat"})


def events(
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on with what happens next.")] = False,
    kinds: Annotated[str, typer.Option("--kinds", "-k", help=f"Only these: {EVENTS_HINT}.")] = "",
    agent: Annotated[str | None, typer.Option("--agent", help="Only what is about this agent.")] = None,
    query: FilterOption = None,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what happened lately, a line an event; with -w go on until interrupted."""

    sought("events", query)

    async def work(client: "Client") -> None:
        async for event in follow(client, kinds, query=query, from_start=True, on_end=not watch):
            if event["event"] in CONTROL or (agent is not None and event["data"].get("agent_id") != agent):
                continue
            _show(event, output)

    talk(work, url, project)


def logs(
    agent: Annotated[str, typer.Argument(help="The agent's id.")],
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", "--follow", "-f", help="Go on with what it does next.")
    ] = False,
    limit: Annotated[int, typer.Option("--tail", min=1, max=500, help="How many turns back.")] = 20,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what an agent did, oldest first: each turn, what it was asked, and what came of it."""

    async def work(client: "Client") -> None:
        from homeostat.client.client import path_part

        path = f"/v1/agents/{path_part(agent)}/turns?limit={limit}"
        shown: dict[str, str] = {}
        source = follow(client, "turn,deliverable") if watch else _once()
        async for _ in source:
            page: Any = await client.read_json(path)
            for turn in reversed(page["items"]):
                if shown.get(turn["turn_id"]) != turn["status"]:
                    shown[turn["turn_id"]] = turn["status"]
                    _log(turn, output)

    talk(work, url, project)


async def _once() -> "AsyncIterator[Event]":
    yield {"event": "hello", "data": {}}


def _log(turn: dict[str, Any], output: Output) -> None:
    from homeostat.cli.listing import brief

    if output is Output.JSON:
        import msgspec

        typer.echo(msgspec.json.encode(turn).decode())
        return
    ended = turn["deliverable"]
    came = "" if ended is None else f" → {brief(ended['error'] or ended['result'])}"
    typer.echo(f"{turn['created_at']}  {turn['turn_id']}  {turn['status']:<10} {brief(turn['payload'])}{came}")


def _show(event: Event, output: Output) -> None:
    from homeostat.cli.tables import plain

    if output is Output.JSON:
        import msgspec

        typer.echo(msgspec.json.encode(event).decode())
        return
    data = event["data"]
    said = "  ".join(f"{name}={value}" for name, value in data.items() if value not in (None, "", [], {}))
    typer.echo(plain(f"{event['event']:<12} {said}"))


async def follow(
    client: "Client", kinds: str = "", *, query: str | None = None, from_start: bool = False, on_end: bool = False
) -> "AsyncIterator[Event]":
    """The server's sequence of events; `on_end` stops where the past ends. A lost connection is taken up again."""
    import asyncio

    import httpx2

    from homeostat.client.transport import error_of

    last = ""
    while True:
        headers = {"accept": "text/event-stream", "x-homeostat-project": client.project}
        if last:
            headers["last-event-id"] = last
        asked = {name: value for name, value in (("kinds", kinds), ("q", query)) if value}
        timeout = httpx2.Timeout(5.0, read=None)
        try:
            async with client.transport.http.stream(
                "GET", "/v1/events", params=asked, headers=headers, timeout=timeout
            ) as answer:
                if answer.status_code != 200:
                    raise error_of(answer.status_code, await answer.aread())
                async for event in _events(answer):
                    if event["event"] == "hello" and from_start and not last:
                        last = event["id"].partition(".")[0] + ".0"
                        break
                    last = event["id"] or last
                    yield event
                    if on_end and event["event"] == "beat":
                        return
        except httpx2.TransportError:
            await asyncio.sleep(1.0)


async def _events(answer: Any) -> "AsyncIterator[Event]":
    import msgspec

    event: dict[str, Any] = {"event": "message", "id": "", "data": {}}
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "data":
            event["data"] = msgspec.json.decode(value)
        elif name in {"event", "id"}:
            event[name] = value
        elif not line:
            yield event
            event = {"event": "message", "id": event["id"], "data": {}}
