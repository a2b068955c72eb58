"""`homeostat demo`: a simulated fleet falls ill, is found, isolated and healed, and nothing is lost."""

from typing import Any

import typer

from homeostat.cli.output import Output, OutputOption


def demo(*, output: OutputOption = Output.TABLE) -> None:
    """Let a simulated fleet fall ill in every way, and see it found, isolated and healed.

    Time is simulated; kernel, gateway and immune system are the real ones. Ends with 0 only if every fault was cured,
    nothing was lost, and no healthy agent was isolated.
    """
    import asyncio
    import logging

    import msgspec

    from homeostat.testing.ailments import tell

    logging.getLogger("homeostat").setLevel(logging.ERROR)
    told = asyncio.run(tell())
    if output is Output.JSON:
        typer.echo(msgspec.json.encode(told).decode())
    else:
        _show(told)
    lost, cured = told["turns"]["lost"], all(fault["cured_by"] for fault in told["faults"])
    if lost or not cured or told["false_quarantines"] or told["outage"]["quarantined"]:
        raise typer.Exit(1)


def _show(told: dict[str, Any]) -> None:
    typer.echo(
        f"{'FAULT':<20}{'AGENT':<10}{'FOUND AFTER':>12}  {'FIRST HYPOTHESIS':<20}{'CURED BY':<18}{'WELL AFTER':>10}"
    )
    for fault in told["faults"]:
        found, well = fault["detected_after_seconds"], fault["recovered_after_seconds"]
        typer.echo(
            f"{fault['kind']:<20}{fault['agent_id']:<10}{_seconds(found):>12}  "
            f"{fault['first_hypothesis'] or 'none':<20}{fault['cured_by'] or 'nothing':<18}{_seconds(well):>10}"
        )
    turns, outage = told["turns"], told["outage"]
    typer.echo(f"turns       {turns['enqueued']} enqueued, {turns['delivered']} delivered, {turns['lost']} lost")
    typer.echo(f"outage      {outage['agents_hit']} agents hit, {outage['quarantined']} quarantined")
    typer.echo(f"healthy agents isolated   {told['false_quarantines']}")


def _seconds(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f} s"
