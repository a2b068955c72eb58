"""`homeostat events` and `homeostat logs`: what happens, as it happens, and what an agent did."""

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.looking import AWAY_SECONDS, look
from homeostat.cli.nouns import EVENTS_HINT, bare
from homeostat.cli.output import Output, OutputOption
from homeostat.cli.selection import FilterOption, sought

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from homeostat.client.client import Client

Event = dict[str, Any]
CONTROL = frozenset({"hello", "gap", "beat"})
TAIL_MAX = 500


def events(
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on with what happens next.")] = False,
    kinds: Annotated[str, typer.Option("--kinds", "-k", help=f"Only these: {EVENTS_HINT}.")] = "",
    agent: Annotated[str | None, typer.Option("--agent", help="Only what is about this agent.")] = None,
    query: FilterOption = None,
    tail: Annotated[int, typer.Option("--tail", min=0, max=TAIL_MAX, help="How many events back.")] = TAIL_MAX,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what happened lately, a line an event; with -w go on until interrupted."""

    sought("events", query)

    async def work(client: "Client") -> None:
        async with aclosing(follow(client, kinds, query=query, tail=tail, on_end=not watch)) as told:
            async for event in told:
                if event["event"] in CONTROL or (agent is not None and event["data"].get("agent_id") != agent):
                    continue
                _show(event, output)

    talk(work, url, project)


def logs(
    agent: Annotated[str, typer.Argument(help="The agent's id.", parser=bare)],
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

        async def read() -> Any:
            return await client.read_json(path)

        async with aclosing(follow(client, "turn,deliverable") if watch else _once()) as source:
            async for _ in source:
                page: Any = await (look(read, left=agent) if shown else read())
                for turn in reversed(page["items"]):
                    if shown.get(turn["turn_id"]) != turn["status"]:
                        shown[turn["turn_id"]] = turn["status"]
                        _log(turn, output)

    talk(work, url, project)


async def _once() -> "AsyncGenerator[Event, None]":
    yield {"event": "hello", "data": {}}


def _log(turn: dict[str, Any], output: Output) -> None:
    from homeostat.cli.listing import brief

    if output is Output.JSON:
        import msgspec

        typer.echo(msgspec.json.encode(turn).decode())
        return
    ended = turn["deliverable"]
    came = "" if ended is None else f" → {brief(ended['error'] or ended['result'])}"
    at = turn["created_at"][:19].replace("T", " ")
    typer.echo(f"{at}  {turn['turn_id']}  {turn['status']:<10} {brief(turn['payload'])}{came}")


def _show(event: Event, output: Output) -> None:
    if output is Output.JSON:
        import msgspec

        typer.echo(msgspec.json.encode(event).decode())
        return
    from homeostat.cli.event_words import line
    from homeostat.cli.tables import screen

    typer.echo(line(event, on=screen()))


async def follow(
    client: "Client",
    kinds: str = "",
    *,
    query: str | None = None,
    tail: int = 0,
    cursor: int = 0,
    on_end: bool = False,
    path: str = "/v1/events",
) -> "AsyncGenerator[Event, None]":
    """The server's sequence of events, or another stream of it, from so many back or from behind a cursor; `on_end`
    stops where the past ends, else a lost connection is taken up again where it broke.
    """
    import asyncio

    import httpx2

    from homeostat.client.transport import error_of
    from homeostat.core.errors import ServerUnreachable, Unavailable

    last = ""
    asked = {"kinds": kinds, "q": query or "", "tail": str(tail or ""), "follow": "false" if on_end else ""}
    asked["cursor"] = str(cursor or "")
    while True:
        headers = {"accept": "text/event-stream", "x-homeostat-project": client.project}
        if last:
            headers["last-event-id"] = last
        try:
            async with client.transport.http.stream(
                "GET",
                path,
                params={name: value for name, value in asked.items() if value},
                headers=headers,
                timeout=httpx2.Timeout(5.0, read=None),
            ) as answer:
                if answer.status_code != 200:
                    refused = error_of(answer.status_code, await answer.aread())
                    if last and isinstance(refused, Unavailable):
                        raise httpx2.RemoteProtocolError(refused.message)
                    raise refused
                async for event in _events(answer):
                    last = event["id"] or last
                    yield event
            if on_end:
                return
        except httpx2.TransportError as problem:
            said = str(problem) or type(problem).__name__
            if on_end or not last:  # a person would rather hear at once that there is no server
                raise ServerUnreachable(url=client.url, problem=said) from problem
            typer.echo(f"homeostat: the connection is gone ({said}); it is tried again", err=True)
        await asyncio.sleep(AWAY_SECONDS)


async def _events(answer: Any) -> "AsyncGenerator[Event, None]":
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
