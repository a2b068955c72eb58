"""Receipts in a terminal: what was asked about an agent, and what was found when it was read back."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.nouns import bare
from homeostat.cli.output import Output, OutputOption, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from homeostat.client.client import Client

GAPS_SHOWN = 3

Agent = Annotated[str, typer.Argument(help="The agent's id.", parser=bare)]


def receipt(agent: Agent, *, url: Url = None, project: Project = None, output: OutputOption = Output.TABLE) -> None:
    """Show how an agent is held, or was let go: each strategy with what was found when its effect was read."""

    async def work(client: "Client") -> None:
        from homeostat.client.client import path_part

        found: Any = await client.read_json(f"/v1/agents/{path_part(agent)}/receipt")
        if output is Output.TABLE:
            typer.echo(told(found))
        else:
            show(found, output)

    talk(work, url, project)


def _until(gap: dict[str, Any], when: "Callable[[str], str]") -> str:
    return "now" if gap["until"] is None else when(gap["until"])


def told(receipt: dict[str, Any]) -> str:
    """A receipt in a few lines."""
    from homeostat.core.clock import SystemClock, parse_rfc3339
    from homeostat.core.moments import moment

    now = SystemClock().now_ms()

    def when(instant: str) -> str:
        return moment(parse_rfc3339(instant), now)

    asked = f"{receipt['verb']} of {receipt['agent_id']} asked at {when(receipt['asked_at'])} by {receipt['actor']}"
    lines = [f"{asked} ({receipt['reason']}): {receipt['effect']}"]
    for one in receipt["strategies"]:
        checked = "never read" if one["checked_at"] is None else f"read {when(one['checked_at'])}"
        lines.append(f"  {one['strategy']:<11} {one['wanted']:<9} {one['effect']:<11} {checked}  {one['note']}")
        gaps = one["gaps"][-GAPS_SHOWN:]
        lines += [f"              open from {when(gap['since'])} to {_until(gap, when)}: {gap['note']}" for gap in gaps]
    lines += [f"  {one['strategy']:<11} not used: {one['why']}" for one in receipt["not_applicable"]]
    refused = receipt["requests_refused"]
    were = "request was" if refused == 1 else "requests were"
    lines.append(
        f"  since then {refused} {were} refused, {receipt['requests_answered']} answered, "
        f"{receipt['tokens_spent']} tokens spent"
    )
    return "\n".join(lines)
