"""`homeostat webhook`: where alerts go, and what became of each."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.looking import look
from homeostat.cli.numbers import finite
from homeostat.cli.output import Output, OutputOption, show

if TYPE_CHECKING:
    from homeostat.client.client import Client

webhook = typer.Typer(help="Say where alerts go, try it, and see what became of each.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="As `homeostat webhook list` shows it.")]
PAGE = 100
LOOK_SECONDS = 0.5


@webhook.command()
def add(
    name: Annotated[str, typer.Argument(help="What to call it.")],
    address: Annotated[str, typer.Argument(metavar="URL", help="Where to send; http or https.")],
    *,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="alert, approval, phase or budget; give it once for each. [alert, approval]"),
    ] = None,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="An address inside the house is meant.")
    ] = False,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send alerts somewhere. The secret that signs them is shown this once; a name that is taken is set anew."""
    body: dict[str, Any] = {"url": address, "allow_private": allow_private, **({"kinds": kind} if kind else {})}

    async def work(client: "Client") -> None:
        made = await client.put_json(_path(name), body)
        if output is Output.JSON:
            show(made, output)
            return
        typer.echo(
            f"{name} is told of {', '.join(made['kinds'])}; see that it works: homeostat webhook test {name}", err=True
        )
        typer.echo(made["secret"])

    talk(work, url, project)


@webhook.command()
def remove(name: Name, *, url: Url = None, project: Project = None) -> None:
    """Send no more alerts there; what was on its way is given up."""

    async def work(client: "Client") -> None:
        await client.delete(_path(name))
        typer.echo(f"{name} is told nothing any more.")

    talk(work, url, project)


@webhook.command("test")
def try_out(
    name: Name,
    *,
    wait: Annotated[
        float, typer.Option(callback=finite, help="How many seconds to wait for the first attempt.")
    ] = 15.0,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send something harmless on the way that alerts take, and say whether it arrived."""

    async def work(client: "Client") -> None:
        sent = await client.post_json(f"{_path(name)}/test", {})
        told = await _attempted(client, name, sent, wait)
        if output is Output.JSON:
            show(told, output)
        else:
            typer.echo(f"{name}: {_became(told)}")
        if told["status"] != "delivered":
            raise typer.Exit(1)

    talk(work, url, project)


async def _attempted(client: "Client", name: str, sent: dict[str, Any], wait: float) -> dict[str, Any]:
    """A delivery after its first attempt, or as it stands when the patience ends."""
    import asyncio

    from homeostat.core.clock import SystemClock

    clock = SystemClock()
    until, told, path = clock.monotonic() + wait, sent, f"{_path(name)}/deliveries?limit={PAGE}"
    while not told["attempts"] and clock.monotonic() < until:
        await asyncio.sleep(LOOK_SECONDS)
        found = await look(lambda: client.read_json(path), left="the delivery", until=until)
        told = next((one for one in found["deliveries"] if one["delivery_id"] == sent["delivery_id"]), told)
    return told


@webhook.command("list")
def list_webhooks(*, url: Url = None, project: Project = None, output: OutputOption = Output.TABLE) -> None:
    """List where alerts go; secrets are not shown again."""

    async def work(client: "Client") -> None:
        found = await client.read_json("/v1/webhooks")
        if output is Output.JSON:
            show(found, output)
            return
        from homeostat.cli.tables import distance
        from homeostat.core.clock import SystemClock

        now = SystemClock().now_ms()
        _table(
            ("NAME", "URL", "TOLD OF", "AGE"),
            [
                (one["name"], one["url"], ",".join(one["kinds"]), distance(one["created_at"], now))
                for one in found["webhooks"]
            ],
            "There are no webhooks.",
        )

    talk(work, url, project)


@webhook.command()
def deliveries(
    name: Name,
    *,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 20,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what was sent there, newest first, and what became of it."""

    async def work(client: "Client") -> None:
        found = await client.read_json(f"{_path(name)}/deliveries?limit={limit}")
        if output is Output.JSON:
            show(found, output)
            return
        from homeostat.cli.tables import distance
        from homeostat.core.clock import SystemClock

        now = SystemClock().now_ms()
        _table(
            ("DELIVERY", "KIND", "AGE", "ATTEMPTS", "BECAME"),
            [
                (
                    one["delivery_id"],
                    one["kind"],
                    distance(one["created_at"], now),
                    str(one["attempts"]),
                    _became(one, again=distance(one["next_at"], now) if one["next_at"] else ""),
                )
                for one in found["deliveries"]
            ],
            "Nothing was sent there yet.",
        )

    talk(work, url, project)


def _became(one: dict[str, Any], *, again: str = "") -> str:
    answer = f"HTTP {one['last_status']}" if one["last_status"] else one["last_problem"]
    if one["status"] == "pending":
        told = f"not delivered yet: {answer}" if one["attempts"] else "on its way"
        return f"{told}; tried again {again}" if again and one["attempts"] else told
    return f"{one['status']}: {answer}" if answer else one["status"]


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]], nothing: str) -> None:
    from homeostat.cli.tables import Cell, Column, plain, screen, table

    if not rows:
        typer.echo(nothing, err=True)
        return
    columns = [Column(title) for title in titles]
    cells = [[Cell(plain(text)) for text in row] for row in rows]
    typer.echo("\n".join(table(columns, cells, on=screen())))


def _path(name: str) -> str:
    from homeostat.client.client import path_part

    return f"/v1/webhooks/{path_part(name)}"
