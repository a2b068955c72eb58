"""How an order is carried out: whom it is for, what it would reach, whether that is meant, and how each took it."""

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from homeostat.cli import receipts, verbs
from homeostat.cli.failures import USAGE, fail
from homeostat.cli.held import tell_held, tell_held_of
from homeostat.cli.looking import look
from homeostat.cli.nouns import BY_NAME
from homeostat.cli.output import Output, document, show
from homeostat.cli.selection import selection, sought
from homeostat.cli.surroundings import every
from homeostat.cli.tables import Cell, Column, plain, screen, table
from homeostat.client.client import path_part
from homeostat.core.errors import HomeostatError, ServerUnreachable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from homeostat.cli.orders import Order
    from homeostat.client.client import Client

T = TypeVar("T")

ALL = "all"
AT_ONCE = 8  # orders under way at a time
REACHED = (
    ("AGENT", "agent_id"),
    ("PHASE", "phase"),
    ("GATE", "gate"),
    ("TURN", "active_turn_id"),
    ("QUEUED", "queued"),
    ("CALLS", "open_calls"),
)
LOOK_SECONDS = 0.2


# --- whom --------------------------------------------------------------------------------------------------------


async def meant(client: "Client", order: "Order") -> list[str]:
    """The ids that were named, or that fit."""
    which, noun = order.which, order.verb.noun
    selects = bool(which.selector or which.agent_type or which.query)
    if which.names and selects:
        raise fail(f"name {noun}, or select them, not both", code=USAGE)
    if which.names == [ALL] and noun == "approvals":
        return await _fitting(client, noun, "status:pending")
    if which.names:
        return list(dict.fromkeys(which.names))
    if not selects:
        hint = f"homeostat get {noun} lists them; -q FILTER selects some."
        raise fail(f"no {BY_NAME[noun].one if noun in BY_NAME else 'agent'} was named", hint=hint, code=USAGE)
    if noun == "agents":
        found = await _agents(client, order)
    elif which.selector or which.agent_type:
        raise fail(f"{noun} have no tags or types; select them with -q", code=USAGE)
    else:
        sought(noun, which.query)
        found = await _fitting(client, noun, _open(order))
    if not found:
        raise fail("nobody is selected by that", code=USAGE)
    return found


def _open(order: "Order") -> str:
    """Approvals are answered as long as they are open: what is settled is not meant."""
    return f"{order.which.query} status:pending" if order.verb.noun == "approvals" else order.which.query or ""


async def _agents(client: "Client", order: "Order") -> list[str]:
    which = order.which
    wanted = selection(which.agent_type, which.selector, None, which.query)
    found = await client.agents(agent_type=wanted.agent_type, query=wanted.asked)
    return [one.agent_id for one in found]


async def _fitting(client: "Client", noun: str, query: str) -> list[str]:
    listed = BY_NAME[noun]
    return [listed.id_of(row) for row in await every(client, listed.list_path, listed.items, query)]


def _path(order: "Order", thing: str) -> str:
    if order.verb.noun == "approvals" and thing.startswith("run_") and "/" in thing:
        run_id, _, task = thing.partition("/")
        return f"/v1/runs/{path_part(run_id)}/tasks/{path_part(task)}/{order.verb.name}"
    return order.verb.path.replace("{id}", path_part(thing))


# --- what it would reach -----------------------------------------------------------------------------------------


async def tell_tasks(client: "Client", order: "Order", ids: list[str]) -> None:
    """Whoever answers `all` hears of what that does not mean."""
    if order.verb.noun == "approvals" and order.which.names == [ALL]:
        done = {"approve": "approved", "reject": "rejected"}[order.verb.name]
        nothing = f"No treatment is open, and nothing was {done}."
        await tell_held(client, before="" if ids else nothing)


async def rehearse(client: "Client", order: "Order", ids: list[str]) -> None:
    """Show whom the order would reach, and what they have in hand."""
    if not order.verb.rehearsed:
        typer.echo(f"{order.verb.name}: {', '.join(ids)}. Nothing was done.", err=True)
        return
    told: list[Any] = await _some_at_a_time(
        (lambda one=one: client.post_json(f"{_path(order, one)}?dry_run=true", order.body)) for one in ids
    )
    if order.output is Output.JSON:
        show(told if len(told) > 1 else told[0], order.output)
        return
    show_blast(told)


def show_blast(told: list[Any]) -> None:
    """One or more rehearsals as tables, and what they come to in a sentence."""
    from homeostat.cli.listing import brief

    runs = list({run["run_id"]: run for blast in told for run in blast["runs"]}.values())
    if runs:
        columns = [
            Column("RUN"),
            Column("STATUS"),
            Column("TASKS", least=12),
            Column("USD", right=True),
            Column("GOAL", least=12),
        ]
        rows = [
            [
                Cell(run["run_id"]),
                Cell(run["status"]),
                Cell(", ".join(f"{count} {word}" for word, count in run["tasks"].items()) or "-"),
                Cell(f"{run['usd_spent']:.2f}"),
                Cell(plain(" ".join(run["goal"].split()))),
            ]
            for run in runs
        ]
        typer.echo("\n".join(table(columns, rows, on=screen())))
    agents = {one["agent_id"]: one for blast in told for one in blast["agents"]}
    if agents:
        if runs:
            typer.echo()
        columns = [Column(title) for title, _ in REACHED]
        rows = [[Cell(brief(one[member])) for _, member in REACHED] for one in agents.values()]
        typer.echo("\n".join(table(columns, rows, on=screen())))
    for blast in told:
        if blast.get("rehearsal"):
            whose = "".join(f"{one['agent_id']}: " for one in blast["agents"][:1])
            typer.echo(plain(f"{whose}{blast['rehearsal']}"))
    more = sum(blast["more"] for blast in told)
    counted = [
        f"{count} {noun}{'s' * (count > 1)}" for count, noun in ((len(runs), "run"), (len(agents), "agent")) if count
    ]
    counted += [f"{more} more"] * bool(more)
    undo = told[0]["undo"]
    back = f"Undone by: {undo}." if undo.startswith("homeostat") else undo
    said = f"{', '.join(counted) or 'Nobody'}. {told[0]['effect']} {back} Nothing was done."
    typer.echo(said, err=True)


async def ask(client: "Client", order: "Order", ids: list[str]) -> None:
    """Nobody hits many by a slip of the finger."""
    if order.verb.rehearsed:
        await rehearse(client, order, ids)
    if not sys.stdin.isatty():
        said = f"this would {order.verb.name} {len(ids)} {order.verb.noun}"
        raise fail(said, hint="Say --yes if that is meant.", code=USAGE)
    typer.confirm(f"{order.verb.name.capitalize()} these {len(ids)} {order.verb.noun}?", abort=True, err=True)


# --- doing it ----------------------------------------------------------------------------------------------------


async def give_all(client: "Client", order: "Order", ids: list[str]) -> bool:
    """A few at a time, a line each as it is taken; false where one of them refused. One that refuses does not stop the
    others; whoever interrupts hears how far it came.
    """
    many = len(ids) > 1 and order.output is not Output.JSON
    taken: list[bool] = []

    async def give(one: str) -> None:
        said, done = await _give(client, order, one)
        taken.append(done)
        prefix = f"[{len(taken)}/{len(ids)}] " if many else ""
        typer.echo(f"{'' if done else 'homeostat: '}{prefix}{said}", err=not done)
        if done and order.verb is verbs.RESUME:
            await tell_held_of(client, await client.read_json(f"/v1/runs/{path_part(one)}"))

    try:
        await _some_at_a_time((lambda one=one: give(one)) for one in ids)
    finally:
        if many:
            left = len(ids) - len(taken)
            rest = f", {left} not answered" if left else ""
            typer.echo(f"{sum(taken)} done, {len(taken) - sum(taken)} refused{rest}", err=True)
    return all(taken)


async def _some_at_a_time(work: "Iterable[Callable[[], Awaitable[T]]]") -> "list[T]":
    """Do it all, so many at once; the results in the order of the work."""
    import asyncio

    free = asyncio.Semaphore(AT_ONCE)

    async def one(begin: "Callable[[], Awaitable[T]]") -> "T":
        async with free:
            return await begin()

    try:
        async with asyncio.TaskGroup() as group:
            begun = [group.create_task(one(begin)) for begin in work]
    except ExceptionGroup as problems:  # the first that could not be done ended the rest
        raise problems.exceptions[0] from None
    return [task.result() for task in begun]


async def _give(client: "Client", order: "Order", thing: str) -> tuple[str, bool]:
    """What is to be said of an order, and whether it was followed."""
    try:
        told: Any = await client.post_json(_path(order, thing), order.body)
        if order.wait_seconds is not None:
            told = await _drained(client, thing, order.wait_seconds)
    except ServerUnreachable:
        raise
    except HomeostatError as error:
        hint = f"\n  {error.hint}" if error.hint else ""
        return plain_lines(f"{thing}: {error.message}{hint}"), False
    done = order.wait_seconds is None or told.get("drained", True)
    return document(told, yaml=False) if order.output is Output.JSON else plain_lines(_line(order, thing, told)), done


def plain_lines(text: str) -> str:
    return "\n".join(map(plain, text.splitlines()))


def _line(order: "Order", thing: str, told: dict[str, Any]) -> str:
    """How it was taken, in a line; where an agent was held or let go, with its receipt."""
    if "run_id" in told:
        task = thing.partition("/")[2]
        answer = {"approve": "approved", "reject": "rejected"}.get(order.verb.name, order.verb.name)
        said = f"task {task} of {told['run_id']} is {answer}; the run is" if task else f"{told['run_id']} is"
        return f"{said} {told['status']}, by {told['moved']['actor']}"
    if "approval_id" in told:
        return f"{told['action']} of {told['agent_id']} is {told['status']}"
    if "phase" in told:
        killed = ", killed" if told["killed"] else ""
        phase = "on probation" if told["phase"] == "probation" else told["phase"]
        line = f"{thing} is {phase}{killed}: {told['cause']}"
        return line if told.get("receipt") is None else f"{line}\n{receipts.told(told['receipt'])}"
    if order.verb.name == "requeue":
        held = "" if told["gate"] == "open" else f"; the gate is {told['gate']}, so it waits"
        return (
            f"{thing} is back at the front of the line of {told['agent_id']}, which is at epoch {told['epoch']}{held}"
        )
    words = "is cordoned" if told["cordoned"] else "gets turns again"
    if told["cordoned"] and told["drained"]:
        words = "is cordoned and drained"
    elif told["active_turn_id"] is not None:
        words += f"; {told['active_turn_id']} is still under way"
    return f"{thing} {words}, {told['queued']} waiting"


async def _drained(client: "Client", agent: str, seconds: float) -> Any:
    import asyncio

    from homeostat.core.clock import SystemClock

    clock = SystemClock()
    until = clock.monotonic() + seconds
    path = f"/v1/agents/{path_part(agent)}/cordon"
    while True:
        state: Any = await look(lambda: client.read_json(path), left=agent, until=until)
        if state["drained"] or clock.monotonic() >= until:
            return state
        await asyncio.sleep(LOOK_SECONDS)
