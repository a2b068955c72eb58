"""`homeostat bench`: measure what is promised, with the code that runs in production."""

from pathlib import Path
from typing import Annotated

import typer

from homeostat.cli.failures import USAGE, fail
from homeostat.cli.output import Output, OutputOption

bench = typer.Typer(help="Measure what is promised.", no_args_is_help=True)


@bench.callback()
def root() -> None:
    """Measure what is promised."""


@bench.command()
def detection(
    *,
    data: Annotated[Path, typer.Option(help="A directory with nab/, llm_traffic/ and agentdojo/.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure to this file.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run the sentinel over real data, one configuration for all of it, and show what it found beside what is promised.

    Parts whose data is not there are skipped. Takes a minute or two on one core.
    """
    if not data.is_dir():
        raise fail(
            f"there is no directory {data}", hint="Name one that has nab/, llm_traffic/ or agentdojo/.", code=USAGE
        )
    from homeostat.bench.detection import encoded, lines, measure

    report = measure(data)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_bytes(encoded(report))
    if output is Output.JSON:
        typer.echo(encoded(report), nl=False)
        return
    for what, measured, wanted in lines(report):
        typer.echo(f"{what:48} {measured:>34}   {wanted}".rstrip())
