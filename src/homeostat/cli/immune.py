"""What operators do about the health of an agent: quarantine, release, heal, approve, reject, and ask why."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.output import Output, OutputOption, show

if TYPE_CHECKING:
    from homeostat.client.client import Client

why = typer.Typer(help="Tell why something is as it is.", no_args_is_help=True)

Agent = Annotated[str, typer.Argument(help="The agent's id.")]
ApprovalArgument = Annotated[str, typer.Argument(help="The approval's id; `homeostat get approvals` lists them.")]
Reason = Annotated[str, typer.Option(help="Why; it is kept with your name.")]
Actor = Annotated[str, typer.Option(help="Who says so.", envvar="USER")]


@why.command("turn")
def why_turn(
    turn: Annotated[str, typer.Argument(help="The turn's id.")],
    *,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Tell how a turn came to be where it is: who asked, who works on it, what it waits for, how it ended."""

    async def work(client: "Client") -> None:
        view: Any = await client.read_json(f"/v1/turns/{turn}")
        if output is Output.JSON:
            show(view, output)
            return
        typer.echo(turn_story(view))

    talk(work, url, project)


def turn_story(view: dict[str, Any]) -> str:
    """A turn in a paragraph."""
    from homeostat.cli.listing import brief

    asked = f"by {view['source_agent_id']}" if view["source_agent_id"] else "from outside"
    told = [f"{view['turn_id']} of {view['agent_id']} is {view['status']}, asked for {asked} at {view['created_at']}."]
    if view["starts"]:
        told.append(
            f"It was started {view['starts']} times under epoch {view['epoch']}, and lost {view['losses']} times."
        )
    if view["worker_id"] and view["lease_expires_at"]:
        told.append(f"{view['worker_id']} works on it; its lease holds until {view['lease_expires_at']}.")
    told += [
        f"It waits for {wait['tool']} ({wait['tool_call_id']}) until {wait['deadline_at']}."
        for wait in view["waits"]
        if wait["status"] == "pending"
    ]
    ended = view["deliverable"]
    if ended is not None:
        told.append(
            f"It ended at {ended['finished_at']} as {ended['status']}: {brief(ended['error'] or ended['result'])}."
        )
    elif view["status"] == "queued":
        told.append(f"It waits for its place in the line; `homeostat describe head {view['agent_id']}` shows the gate.")
    return " ".join(told)


@why.command("agent")
def why_agent(agent: Agent, *, url: Url = None, project: Project = None, output: OutputOption = Output.TABLE) -> None:
    """Tell how an agent's health came to be what it is, from the evidence."""

    async def work(client: "Client") -> None:
        health: Any = await client.read_json(f"/v1/agents/{agent}/health")
        if output is Output.JSON:
            show(health, output)
            return
        typer.echo(story(health))

    talk(work, url, project)


def story(health: dict[str, Any]) -> str:
    """An agent's state in a paragraph."""
    agent, incident = health["agent_id"], health["incident"]
    told = [f"{agent} is {health['phase']} since {health['since']}"]
    told[0] += f", by {health['actor']}: {health['cause']}." if health["cause"] else "."
    if incident is not None:
        seen = list(dict.fromkeys(one["why"] for one in incident["evidence"]))[:3]
        if seen:
            told.append(f"It was noticed because {'; '.join(seen)} ({incident['sigma']:.1f} sigma at worst).")
        if incident["hypotheses"]:
            likely = [f"{one['diagnosis']} ({one['confidence']:.0%})" for one in incident["hypotheses"][:3]]
            told.append(f"It may be {', or '.join(likely)}.")
        for one in incident["treatments"]:
            result = {True: "it helped", False: "it did not help", None: "probation will tell"}[one["cured"]]
            told.append(f"{one['action']} was {one['applied'].replace('_', ' ')} ({one['note']}); {result}.")
        told.append(f"{incident['held']} messages were held, {incident['resumed']} resumed, {incident['lost']} lost.")
    steps = [f"{step['target']} by {step['actor']} ({step['cause']})" for step in reversed(health["history"][:5])]
    if steps:
        told.append(f"Before that: {' → '.join(steps)}.")
    return " ".join(told)
