"""`homeostat run` and what operators do to runs: describe, apply, pause and resume."""

import math
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from homeostat.cli import verbs
from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.failures import ERROR, HELD, OK, USAGE, fail
from homeostat.cli.nouns import bare
from homeostat.cli.orders import Actor, DryRun, MustReason, Order, Reason, Runs, Which, Yes, give
from homeostat.cli.output import Output, OutputOption, show
from homeostat.cli.selection import FilterOption

if TYPE_CHECKING:
    from collections.abc import Mapping

    from homeostat.client.client import Client

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id; `homeostat get runs` lists them.", parser=bare)
]
BudgetOption = Annotated[
    str | None, typer.Option(help="What it may use, as in usd=2,tokens=50000,time=10m; time takes s, m or h.")
]

SECONDS = {"s": 1, "m": 60, "h": 3600}

CODES = {"completed": OK, "planned": OK, "failed": ERROR, "killed": ERROR, "paused": HELD}
"""How a run stands when it is followed no longer, and with what the command ends. A plan waits as it was told to."""


def run(
    goal: Annotated[str, typer.Argument(help="What is to be achieved.")],
    *,
    tasks: Annotated[
        str | None, typer.Option(help="A file with the tasks as JSON, as in POST /v1/runs; - is standard input.")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Give the goal to this agent, as one task.")] = None,
    planner: Annotated[str | None, typer.Option(help="The agent that plans; else one of the type planner.")] = None,
    planner_function: Annotated[
        str | None, typer.Option(help="A planning function that `homeostat up --planners` named.")
    ] = None,
    budget: BudgetOption = None,
    parallel: Annotated[int | None, typer.Option(help="How many tasks may run at a time.")] = None,
    wait_for_apply: Annotated[bool, typer.Option(help="Plan only; `homeostat apply RUN` carries it out.")] = False,
    on_budget: Annotated[str | None, typer.Option(help="What a used-up budget does: pause or fail.")] = None,
    pause_on_warning: Annotated[
        bool, typer.Option("--pause-on-warning", help="Hold it once four fifths of a budget are used.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="The seed its agents are given.")] = None,
    replay: Annotated[
        bool, typer.Option("--replay/--no-replay", help="Whether its ledger tells all that a replay needs.")
    ] = True,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Do not follow it.")] = False,
    reason: Reason = "",
    actor: Actor = "operator",
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Begin a run and follow it until it ends or is held. Ctrl-C leaves it running.

    Ends with 0 if the run completed, or is planned and waits to be applied; 1 if it failed or was killed; 3 if it is
    held, by its budget, for an approval or by an operator. -o json says by which, as paused_by.
    """
    _one_of({"--tasks": tasks, "--agent": agent, "--planner": planner, "--planner-function": planner_function})
    body: dict[str, Any] = {"goal": goal, "actor": actor, "reason": reason, "replay": replay}
    if tasks is not None:
        body["tasks"] = tasks_of(tasks)
    elif agent is not None:
        body["tasks"] = [{"name": "goal", "agent": agent, "input": {"goal": goal}}]
    elif planner is not None or planner_function is not None:
        body["planner"] = {"agent": planner} if planner is not None else {"function": planner_function}
    if budget is not None:
        body["budget"] = budget_of(budget)
    policy = {"parallel": parallel, "on_budget": on_budget, "apply": "manual" if wait_for_apply else None}
    policy["pause_on_warning"] = pause_on_warning or None
    body["policy"] = {name: value for name, value in policy.items() if value is not None}
    if seed is not None:
        body["seed"] = seed

    async def work(client: "Client") -> None:
        await _begin(client, body, output, detach=detach)

    talk(work, url, project)


def _one_of(options: "Mapping[str, str | None]") -> None:
    """See that only one says where the tasks come from."""
    said = [name for name, value in options.items() if value is not None]
    if len(said) > 1:
        words = (
            f"say one of {', '.join(said)}, not all of them" if len(said) > 2 else f"say {' or '.join(said)}, not both"
        )
        hint = "Tasks come from a file, are the goal for one agent, or are what a planner plans."
        raise fail(words, hint=hint, code=USAGE)


async def _begin(client: "Client", body: dict[str, Any], output: Output, *, detach: bool) -> None:
    begun: Any = await client.post_json("/v1/runs", body)
    if detach:
        if output is Output.JSON:
            show(begun, output)
        else:
            typer.echo(f"{begun['run_id']} is {begun['status']}; homeostat why run {begun['run_id']} says more")
        return
    from homeostat.cli.run_view import follow

    ended = await follow(client, begun, quiet=output is Output.JSON)
    if output is Output.JSON:
        show(ended, output)
    raise typer.Exit(CODES[ended["status"]])


def describe_run(
    run_id: RunArgument, *, output: OutputOption = Output.TABLE, url: Url = None, project: Project = None
) -> None:
    """Show a run: how it stands and by whom, its tasks, what it has used and how long the rest lasts."""

    async def work(client: "Client") -> None:
        found: Any = await client.read_json(f"/v1/runs/{quote(run_id, safe='')}")
        if output is Output.JSON:
            show(found, output)
            return
        from homeostat.cli.run_view import page

        listed: Any = await client.read_json(f"/v1/runs/{quote(run_id, safe='')}/tasks?limit=200")
        typer.echo("\n".join(page(found, listed["tasks"], more=listed["next_cursor"] is not None)))

    talk(work, url, project)


def apply(
    runs: Runs = None,
    *,
    query: FilterOption = None,
    reason: Reason = "",
    actor: Actor = "operator",
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
    url: Url = None,
    project: Project = None,
) -> None:
    """Carry out plans that wait for it."""
    which = Which(runs, query)
    give(Order(verb=verbs.APPLY, which=which, reason=reason, actor=actor, yes=yes, output=output), url, project)


def pause(
    runs: Runs = None,
    *,
    query: FilterOption = None,
    force: Annotated[bool, typer.Option("--force", help="Take running turns back, too; they go on later.")] = False,
    reason: MustReason = "",
    actor: Actor = "operator",
    dry_run: DryRun = False,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
    url: Url = None,
    project: Project = None,
) -> None:
    """Hold runs: tasks that run may end, no other begins."""
    order = Order(
        verb=verbs.PAUSE,
        which=Which(runs, query),
        reason=reason,
        actor=actor,
        dry_run=dry_run,
        yes=yes,
        output=output,
        more={"force": force},
    )
    give(order, url, project)


def resume(
    runs: Runs = None,
    *,
    query: FilterOption = None,
    budget: BudgetOption = None,
    reason: Reason = "",
    actor: Actor = "operator",
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
    url: Url = None,
    project: Project = None,
) -> None:
    """Go on with runs that are held, with another budget if you say so."""
    more: dict[str, Any] = {} if budget is None else {"budget": budget_of(budget)}
    which = Which(runs, query)
    order = Order(verb=verbs.RESUME, which=which, reason=reason, actor=actor, yes=yes, output=output, more=more)
    give(order, url, project)


def budget_of(text: str) -> dict[str, float | int]:
    """Read `usd=2,tokens=50000,time=10m`. What is no amount, or is said twice, caps nothing and is refused."""
    budget: dict[str, float | int] = {}
    for part in text.split(","):
        name, _, amount = part.strip().partition("=")
        try:
            kind, value = _amount(name, amount)
        except (ValueError, OverflowError):
            hint = "Write it as in usd=2,tokens=50000,time=10m; what is left out is not bounded."
            raise fail(f"{part.strip()!r} is no budget", hint=hint, code=USAGE) from None
        if kind in budget:
            raise fail(f"the budget names {name} twice", hint="Say each of usd, tokens and time once.", code=USAGE)
        budget[kind] = value
    return budget


def _amount(name: str, amount: str) -> tuple[str, float | int]:
    """What a part of a budget bounds, and by how much; raises ValueError where it says neither."""
    if name in ("time", "seconds"):
        unit = SECONDS.get(amount[-1:])
        kind, value = "seconds", float(amount) if unit is None else float(amount[:-1]) * unit
    elif name == "usd":
        kind, value = "usd", float(amount.removeprefix("$"))
    elif name == "tokens":
        kind, value = "tokens", int(amount.replace("_", ""))
    else:
        raise ValueError(name)
    if not 0 <= value < math.inf:
        raise ValueError(amount)
    return kind, value


def tasks_of(path: str) -> Any:
    """The tasks that a file lists, bare or as `tasks` of an object."""
    from homeostat.cli.files import text_of
    from homeostat.core.codec import Json, from_json
    from homeostat.core.errors import MalformedPayload

    try:
        read = from_json(Json(text_of(path)))
    except MalformedPayload as problem:
        raise fail(f"{path} is not valid: {problem.facts['problem']}", code=USAGE) from problem
    return read["tasks"] if isinstance(read, dict) and "tasks" in read else read  # pyright: ignore[reportUnknownVariableType] - as written in the file
