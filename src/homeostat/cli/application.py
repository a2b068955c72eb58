"""The tree of commands; what a command needs is imported when it runs, so that help is quick."""

from typing import Annotated

import typer

import homeostat
from homeostat.cli import (
    agents,
    baseline,
    bench,
    config,
    db,
    demo,
    doctor,
    drill,
    events,
    execution,
    gateway,
    immune_alone,
    keys,
    ledger,
    listing,
    memory,
    orders,
    receipts,
    red_button,
    run_parts,
    runs,
    top,
    treatments,
    turns,
    ui,
    up,
    webhooks,
    why,
    worker,
)
from homeostat.cli.failures import EXIT_CODES
from homeostat.cli.grouping import Grouped, OfThings, Whole

application = typer.Typer(
    name="homeostat",
    cls=Grouped,
    help="Keep a fleet of AI agents alive, bounded and healthy.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # drawing boxes around the help costs more than everything else in it
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - the signature is Typer's
    if wanted:
        typer.echo(f"homeostat {homeostat.__version__}")
        raise typer.Exit


@application.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Keep a fleet of AI agents alive, bounded and healthy."""
    del version


application.command()(up.up)
application.command()(up.server)
application.command()(demo.demo)
application.command()(gateway.gateway)
application.command()(immune_alone.immune)
application.command()(worker.worker)
application.command("exec", context_settings={"ignore_unknown_options": True})(execution.execute)
application.command()(turns.enqueue)
application.command()(turns.turn)
application.command()(top.top)
for verb in (receipts.receipt, orders.release, orders.heal, orders.approve, orders.reject):
    application.command()(verb)
application.command()(runs.run)
for verb in (ledger.export, ledger.verify, ledger.replay):
    application.command()(verb)
for act in (run_parts.plan, run_parts.tasks, run_parts.ledger):
    application.command()(act)
for act in (runs.apply, runs.pause, runs.resume, orders.kill, orders.requeue):
    application.command()(act)
application.command("red-button")(red_button.red_button)
agents.describe.command("run")(runs.describe_run)
for verb in (orders.quarantine, orders.cordon, orders.uncordon, orders.drain, events.events, events.logs):
    application.command()(verb)
for verb in (drill.drill, doctor.doctor, ui.ui):
    application.command()(verb)
listing.add_nouns()
agents.get.command("events")(events.events)
application.add_typer(agents.get, name="get", cls=Whole)
for group, name in ((why.why, "why"), (agents.describe, "describe")):
    application.add_typer(group, name=name, cls=OfThings)
for group, name in (
    (keys.key, "key"),
    (webhooks.webhook, "webhook"),
    (config.config, "config"),
    (db.database, "db"),
    (bench.bench, "bench"),
    (baseline.baseline, "baseline"),
    (treatments.treatment, "treatment"),
    (memory.memory, "memory"),
):
    application.add_typer(group, name=name, cls=Whole)
