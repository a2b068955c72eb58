"""Orders to agents: what they would reach is shown first, and whoever stops something says why."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.failures import ERROR, USAGE, fail
from homeostat.cli.output import Output, OutputOption, show
from homeostat.cli.selection import SelectorOption, TypeOption, selection

if TYPE_CHECKING:
    from homeostat.client.client import Client

Agents = Annotated[
    list[str] | None, typer.Argument(metavar="[AGENT]…", help="The agents' ids, unless -l selects them.")
]
Reason = Annotated[str, typer.Option("--reason", help="Why; it goes into the audit log.")]
Actor = Annotated[str, typer.Option(help="On whose word, where nobody has to log in.", envvar="USER")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what it would reach.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, however many are hit.")]
Timeout = Annotated[float, typer.Option("--timeout", help="How many seconds to wait until they are drained.")]


def quarantine(
    agents: Agents = None,
    *,
    reason: Reason,
    selector: SelectorOption = None,
    agent_type: TypeOption = None,
    actor: Actor = "operator",
    dry_run: DryRun = False,
    yes: Yes = False,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Isolate agents: their messages wait, their model calls are refused, nothing is lost."""
    order = Order("quarantine", reason, actor, dry_run=dry_run, yes=yes, output=output)
    order.run(agents, selector, agent_type, url, project)


def cordon(
    agents: Agents = None,
    *,
    reason: Reason,
    selector: SelectorOption = None,
    agent_type: TypeOption = None,
    actor: Actor = "operator",
    dry_run: DryRun = False,
    yes: Yes = False,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give agents no new turns; what is under way goes on, messages wait."""
    order = Order("cordon", reason, actor, dry_run=dry_run, yes=yes, output=output)
    order.run(agents, selector, agent_type, url, project)


def drain(
    agents: Agents = None,
    *,
    reason: Reason,
    selector: SelectorOption = None,
    agent_type: TypeOption = None,
    actor: Actor = "operator",
    dry_run: DryRun = False,
    yes: Yes = False,
    timeout: Timeout = 300.0,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give agents no new turns, and wait until what they have in hand has ended."""
    order = Order("drain", reason, actor, dry_run=dry_run, yes=yes, output=output, wait_seconds=timeout)
    order.run(agents, selector, agent_type, url, project)


def uncordon(
    agents: Agents = None,
    *,
    reason: Reason = "over",
    selector: SelectorOption = None,
    agent_type: TypeOption = None,
    actor: Actor = "operator",
    yes: Yes = False,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give agents turns again. What the immune system holds stays held."""
    order = Order("uncordon", reason, actor, dry_run=False, yes=yes, output=output)
    order.run(agents, selector, agent_type, url, project)


class Order:
    """One verb, for as many agents as were meant."""

    def __init__(
        self,
        verb: str,
        reason: str,
        actor: str,
        *,
        dry_run: bool,
        yes: bool,
        output: Output,
        wait_seconds: float | None = None,
    ) -> None:
        if not reason.strip():
            raise fail("say why", hint='--reason "what happened"', code=USAGE)
        self._verb = verb
        self._body = {"reason": reason, "actor": actor}
        self._dry_run = dry_run
        self._yes = yes
        self._output = output
        self._wait_seconds = wait_seconds

    def run(
        self,
        agents: list[str] | None,
        selector: list[str] | None,
        agent_type: str | None,
        url: str | None,
        project: str | None,
    ) -> None:
        async def work(client: "Client") -> None:
            ids = await _meant(client, agents, selector, agent_type)
            if self._dry_run:
                await self._rehearse(client, ids)
                return
            if len(ids) > 1 and not self._yes:
                await self._ask(client, ids)
            failed = [one for one in ids if not await self._give(client, one)]
            if failed:
                raise typer.Exit(ERROR)

        talk(work, url, project)

    async def _rehearse(self, client: "Client", ids: list[str]) -> None:
        from homeostat.client.client import path_part

        told: list[Any] = [
            await client.post_json(f"/v1/agents/{path_part(one)}/{self._verb}?dry_run=true", self._body) for one in ids
        ]
        if self._output is Output.JSON:
            show(told if len(told) > 1 else told[0], self._output)
            return
        from homeostat.cli.tables import Cell, Column, plain, screen, table

        columns = [Column(title) for title in ("AGENT", "PHASE", "GATE", "TURN", "QUEUED", "CALLS")]
        members = ("agent_id", "phase", "gate", "active_turn_id", "queued", "open_calls")
        rows = [
            [Cell(plain(str("-" if one[member] is None else one[member]))) for member in members]
            for blast in told
            for one in blast["agents"]
        ]
        typer.echo("\n".join(table(columns, rows, on=screen())))
        typer.echo(f"{told[0]['effect']} Undone by: {told[0]['undo']}. Nothing was done.", err=True)

    async def _ask(self, client: "Client", ids: list[str]) -> None:
        """Nobody hits many by a slip of the finger."""
        import sys

        if self._verb != "uncordon":
            await self._rehearse(client, ids)
        if not sys.stdin.isatty():
            raise fail(f"this would {self._verb} {len(ids)} agents", hint="Say --yes if that is meant.", code=USAGE)
        typer.confirm(f"{self._verb.capitalize()} these {len(ids)} agents?", abort=True, err=True)

    async def _give(self, client: "Client", agent: str) -> bool:
        from homeostat.client.client import path_part
        from homeostat.core.errors import HomeostatError, ServerUnreachable

        try:
            told: Any = await client.post_json(f"/v1/agents/{path_part(agent)}/{self._verb}", self._body)
            if self._wait_seconds is not None:
                told = await _drained(client, agent, self._wait_seconds)
        except ServerUnreachable:
            raise
        except HomeostatError as error:
            typer.echo(f"homeostat: {agent}: {error.message}", err=True)
            return False
        if self._output is Output.JSON:
            show(told, self._output)
        else:
            typer.echo(_line(agent, told))
        return told.get("drained", True) or self._wait_seconds is None


async def _drained(client: "Client", agent: str, seconds: float) -> Any:
    import asyncio

    from homeostat.client.client import path_part
    from homeostat.core.clock import SystemClock

    clock = SystemClock()
    until = clock.monotonic() + seconds
    while True:
        state: Any = await client.read_json(f"/v1/agents/{path_part(agent)}/cordon")
        if state["drained"] or clock.monotonic() >= until:
            return state
        await asyncio.sleep(0.2)


def _line(agent: str, told: dict[str, Any]) -> str:
    if "phase" in told:
        from homeostat.cli import receipts

        line = f"{agent} is {told['phase']}: {told['cause']}"
        return line if told.get("receipt") is None else f"{line}\n{receipts.told(told['receipt'])}"
    words = "is cordoned" if told["cordoned"] else "gets turns again"
    if told["cordoned"] and told["drained"]:
        words = "is cordoned and drained"
    elif told["active_turn_id"] is not None:
        words += f"; {told['active_turn_id']} is still under way"
    return f"{agent} {words}, {told['queued']} waiting"


async def _meant(
    client: "Client", agents: list[str] | None, selector: list[str] | None, agent_type: str | None
) -> list[str]:
    if agents and (selector or agent_type):
        raise fail("name agents, or select them, not both", code=USAGE)
    if agents:
        return list(dict.fromkeys(agents))
    if not selector and not agent_type:
        raise fail("no agent was named", hint="homeostat get agents lists them; -l TAG selects some.", code=USAGE)
    wanted = selection(agent_type, selector)
    import msgspec

    found = await client.agents(agent_type=wanted.agent_type, tag=wanted.tag)
    ids = [row["agent_id"] for row in msgspec.to_builtins(found) if wanted.covers(row)]
    if not ids:
        raise fail("nobody is selected by that", code=USAGE)
    return ids
