"""Orders to agents, runs and approvals: whom they reach is shown first, and whoever stops something says why."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli import verbs
from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.failures import ERROR, USAGE, fail, require
from homeostat.cli.nouns import bare
from homeostat.cli.numbers import finite
from homeostat.cli.output import Output, OutputOption
from homeostat.cli.selection import FilterOption, SelectorOption, TypeOption
from homeostat.cli.verbs import Verb

if TYPE_CHECKING:
    from homeostat.client.client import Client

Agents = Annotated[
    list[str] | None,
    typer.Argument(metavar="[AGENT]…", help="The agents' ids, unless -l or -q selects them.", parser=bare),
]
Runs = Annotated[
    list[str] | None, typer.Argument(metavar="[RUN]…", help="The runs' ids, unless -q selects them.", parser=bare)
]
Approvals = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[APPROVAL]…", help="Ids as `homeostat get approvals` shows them, unless -q selects them.", parser=bare
    ),
]
Turns = Annotated[
    list[str] | None, typer.Argument(metavar="TURN…", help="Ids of turns, as `homeostat get heads` shows.", parser=bare)
]
Either = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN|AGENT]…", help="Ids of runs or of agents, unless -l or -q selects.", parser=bare),
]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is kept with your name.")]
MustReason = Annotated[
    str, typer.Option("--reason", help="Why; whoever stops something says so. It goes into the audit log.")
]
Actor = Annotated[str, typer.Option(help="On whose word, where nobody has to log in.", envvar="USER")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what it would reach.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, however many are hit.")]
Timeout = Annotated[
    float, typer.Option("--timeout", callback=finite, help="How many seconds to wait until they are drained.")
]


@dataclass(frozen=True, slots=True)
class Which:
    """Whom an order is for: by name, or by what fits."""

    names: list[str] | None
    query: str | None = None
    selector: list[str] | None = None
    agent_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One verb, for as many as were meant."""

    verb: Verb
    which: Which
    reason: str
    actor: str
    dry_run: bool = False
    yes: bool = False
    output: Output = Output.TABLE
    wait_seconds: float | None = None
    more: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def body(self) -> dict[str, Any]:
        return {"reason": self.reason, "actor": self.actor, **self.more}


def give(order: Order, url: str | None, project: str | None) -> None:
    """Find whom it is for, show it, ask where more than one is hit, and do it."""
    if order.verb.stops and not order.dry_run:
        require(order.reason)

    async def work(client: "Client") -> None:
        from homeostat.cli import giving

        ids = await giving.meant(client, order)
        if not ids:  # `all` of nothing
            await giving.tell_tasks(client, order, ids)
            return
        if order.dry_run:
            await giving.rehearse(client, order, ids)
            return
        if len(ids) > 1 and not order.yes:
            await giving.ask(client, order, ids)
        done = await giving.give_all(client, order, ids)
        await giving.tell_tasks(client, order, ids)
        if not done:
            raise typer.Exit(ERROR)

    talk(work, url, project)


def _agent_verb(verb: Verb, reason_type: Any, *, default: str = "") -> Callable[..., None]:
    def command(
        agents: Agents = None,
        *,
        reason: str = default,
        selector: SelectorOption = None,
        agent_type: TypeOption = None,
        query: FilterOption = None,
        actor: Actor = "operator",
        dry_run: DryRun = False,
        yes: Yes = False,
        url: Url = None,
        project: Project = None,
        output: OutputOption = Output.TABLE,
    ) -> None:
        which = Which(agents, query, selector, agent_type)
        order = Order(verb=verb, which=which, reason=reason, actor=actor, dry_run=dry_run, yes=yes, output=output)
        give(order, url, project)

    return _named(command, verb, reason_type)


def _answer_verb(verb: Verb) -> Callable[..., None]:
    def command(
        approvals: Approvals = None,
        *,
        query: FilterOption = None,
        reason: Reason = "",
        actor: Actor = "operator",
        dry_run: DryRun = False,
        yes: Yes = False,
        url: Url = None,
        project: Project = None,
        output: OutputOption = Output.TABLE,
    ) -> None:
        which = Which(approvals, query)
        order = Order(verb=verb, which=which, reason=reason, actor=actor, dry_run=dry_run, yes=yes, output=output)
        give(order, url, project)

    return _named(command, verb, MustReason if verb.stops else Reason)


def _named(command: Callable[..., None], verb: Verb, reason_type: Any = None) -> Callable[..., None]:
    """A command that is called as its verb is, and says what the verb says."""
    command.__name__, command.__doc__ = verb.name, verb.words
    if reason_type is not None:
        command.__annotations__["reason"] = reason_type
    return command


def requeue(
    turns: Turns = None,
    *,
    reason: MustReason = "",
    actor: Actor = "operator",
    dry_run: DryRun = False,
    yes: Yes = False,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take turns away from whoever works on them and put them back to the front of the line, under a new epoch."""
    order = Order(
        verb=verbs.REQUEUE,
        which=Which(turns),
        reason=reason,
        actor=actor,
        dry_run=dry_run,
        yes=yes,
        output=output,
    )
    give(order, url, project)


quarantine = _agent_verb(verbs.QUARANTINE, MustReason)
cordon = _agent_verb(verbs.CORDON, MustReason)
uncordon = _agent_verb(verbs.UNCORDON, Reason, default="over")
release = _agent_verb(verbs.RELEASE, Reason)
heal = _agent_verb(verbs.HEAL, Reason)
approve = _answer_verb(verbs.APPROVE)
reject = _answer_verb(verbs.REJECT)


def drain(
    agents: Agents = None,
    *,
    reason: MustReason = "",
    selector: SelectorOption = None,
    agent_type: TypeOption = None,
    query: FilterOption = None,
    actor: Actor = "operator",
    dry_run: DryRun = False,
    yes: Yes = False,
    timeout: Timeout = 300.0,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give agents no new turns, and wait until what they have in hand has ended."""
    order = Order(
        verb=verbs.DRAIN,
        which=Which(agents, query, selector, agent_type),
        reason=reason,
        actor=actor,
        dry_run=dry_run,
        yes=yes,
        output=output,
        wait_seconds=timeout,
    )
    give(order, url, project)


def kill(
    names: Either = None,
    *,
    reason: MustReason = "",
    runs: Annotated[bool, typer.Option("--runs", help="-q selects runs, not agents.")] = False,
    selector: SelectorOption = None,
    agent_type: TypeOption = None,
    query: FilterOption = None,
    actor: Actor = "operator",
    dry_run: DryRun = False,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
    url: Url = None,
    project: Project = None,
) -> None:
    """End runs or agents for good.

    A run starts nothing any more, its turns are stopped and its model calls refused. An agent is isolated at once and
    ended, wherever it runs; it stays so until it is released.
    """
    kinds = {name.startswith("run_") for name in names or ()}
    if len(kinds) > 1:
        raise fail("name runs, or agents, not both at once", code=USAGE)
    verb = verbs.KILL_RUN if runs or kinds == {True} else verbs.KILL_AGENT
    which = Which(names, query, selector, agent_type)
    give(
        Order(verb=verb, which=which, reason=reason, actor=actor, dry_run=dry_run, yes=yes, output=output), url, project
    )
