"""`homeostat export`, `verify` and `replay`: a run's ledger taken along, checked, and run again."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.db import DataDir, StoreUrl
from homeostat.cli.failures import ERROR, USAGE, explained, fail
from homeostat.cli.nouns import bare
from homeostat.cli.output import Output, OutputOption
from homeostat.cli.tables import plain
from homeostat.cli.verification import verify_store

if TYPE_CHECKING:
    from homeostat.client.client import Client
    from homeostat.client.keys import KeyRing
    from homeostat.core.ports.upstream import Upstream
    from homeostat.core.wire.ledger import ReplayShape
    from homeostat.runs.bundle import Bundle
    from homeostat.runs.replaying.changes import Changes
    from homeostat.runs.replaying.replay import FindFactory, Report

_SUBJECT = "A run's id, or a file made by `homeostat export`."
Subject = Annotated[str, typer.Argument(metavar="RUN|FILE", help=_SUBJECT)]
HeadFile = Annotated[Path | None, typer.Option("--head", help="A head you kept: the ledger has to agree with it.")]
PublicKey = Annotated[str | None, typer.Option("--key", help="The public key, in Base64, that must have signed.")]
Code = Annotated[
    list[str] | None,
    typer.Option("--agent", metavar="[ID=]MODULE:AGENT", help="Where an agent's code is; without ID, every agent's."),
]
ModeOption = Annotated[
    str, typer.Option("--mode", help="exact; re-model (models live, tools recorded); what-if (ask what is new).")
]
Prompt = Annotated[str | None, typer.Option(help="With what-if: another system prompt; @FILE reads it from a file.")]
Model = Annotated[str | None, typer.Option(help="With re-model or what-if: another model.")]
DenyModel = Annotated[
    list[str] | None, typer.Option(help="With what-if: a model that a policy refuses; * is any part.")
]
DenyTool = Annotated[list[str] | None, typer.Option(help="With what-if: a tool that a policy refuses; * is any part.")]
Simulate = Annotated[bool, typer.Option("--simulate-models", help="Answer live model calls here, without a network.")]


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run.", parser=bare)],
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Where to. [default: RUN.homeostat]")] = None,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Save a run as one file: its ledger with all that was recorded, and its signed heads."""
    path = file or Path(f"{run}.homeostat")

    async def work(client: "Client") -> None:
        from homeostat.client.bundles import download

        size = await download(client, run, path)
        if output is Output.JSON:
            _say_json({"run_id": run, "file": str(path), "bytes": size})
        else:
            typer.echo(f"{path} ({size:,} bytes). Check it with: homeostat verify {path}")

    talk(work, url, project)


def verify(  # noqa: PLR0917 — each is an option of the command
    subject: Annotated[str | None, typer.Argument(metavar="RUN|FILE", help=_SUBJECT)] = None,
    head: HeadFile = None,
    key: PublicKey = None,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
    store_url: StoreUrl = None,
    data_dir: DataDir = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Check all that a store remembers: turns, money, runs, approvals, audit log.")
    ] = False,
) -> None:
    """Check a run's ledger: hashes, order, signed heads. Names the first entry that is not as it was written.

    With --all everything a store remembers is checked, page by page, whether or not somebody works on it.
    """
    if everything == (subject is not None):
        raise fail("say what to verify", hint="Name a run or a file, or say --all.", code=USAGE)
    if subject is None:
        verify_store(store_url, data_dir, output)
        return
    from homeostat.core.errors import MalformedPayload
    from homeostat.runs.heads import read_head
    from homeostat.runs.shapes import verdict_shape
    from homeostat.runs.verify import verify as check

    with explained():
        try:
            kept = [] if head is None else [read_head(line) for line in head.read_bytes().splitlines() if line.strip()]
        except OSError as problem:
            raise fail(f"{head} cannot be read: {problem.strerror}", code=USAGE) from problem
        except MalformedPayload as problem:
            words = f"{head} is no signed head: {problem.facts['problem']}"
            raise fail(words, hint="A head is kept as GET /v1/runs/RUN/head answers it.", code=USAGE) from problem
        with _bundle(subject, url, project) as bundle:
            verdict = check(bundle, heads=kept, public_key=key)
    if output is Output.JSON:
        _say_json(verdict_shape(verdict))
    elif verdict.finding is None:
        signers = ", ".join(verdict.signed_by) or "nobody"
        typer.echo(f"Run {verdict.run_id}: {verdict.entries:,} entries are as they were written, signed by {signers}.")
    else:
        typer.echo(f"Run {verdict.run_id}: {verdict.finding.message}.")
    if verdict.finding is not None:
        raise typer.Exit(ERROR)


def replay(  # noqa: PLR0917 — each is an option of the command
    subject: Subject,
    agent: Code = None,
    mode: ModeOption = "exact",
    prompt: Prompt = None,
    model: Model = None,
    deny_model: DenyModel = None,
    deny_tool: DenyTool = None,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
    *,
    simulate_models: Simulate = False,
) -> None:
    """Run the agents of a run again on its recording, asking nobody, and say where they differ.

    Code is taken from where the recording says it was if that lies below the current directory, or from --agent.
    """
    from homeostat.runs.replaying.journal import Mode
    from homeostat.runs.shapes import replay_shape

    if mode not in tuple(Mode):
        raise fail(f"--mode {mode} is unknown", hint=f"It is {', '.join(Mode)}.", code=USAGE)
    with explained():
        changes = _changes(prompt, model, deny_model, deny_tool)
        if Mode(mode) is Mode.EXACT and changes:
            words = "--prompt, --model and --deny-… change what is asked"
            raise fail(words, hint="Say --mode what-if with them.", code=USAGE)
        with _bundle(subject, url, project) as bundle:
            find = _cast(agent or [])
            import asyncio

            report, help_out = asyncio.run(
                _replay(bundle, find, Mode(mode), changes, url, project, simulate=simulate_models)
            )
    shape = replay_shape(report)
    if output is Output.JSON:
        _say_json(shape)
    else:
        _tell(shape)
    for words in help_out:
        typer.echo(words, err=True)
    if shape.verdict != "identical":
        raise typer.Exit(ERROR)


def _tell(shape: "ReplayShape") -> None:
    for words in shape.skipped:
        typer.echo(f"Not replayed: {plain(words)}", err=True)
    for target in shape.changed_code:
        typer.echo(f"Note: the file of {plain(target)} is not the one that ran.", err=True)
    if shape.unreached:
        names = ", ".join(shape.unreached)
        typer.echo(f"The other prompt or model reached nobody: no agent here has a profile ({names}).", err=True)
    counted = f"{shape.turns} turns, {shape.entries:,} entries, {shape.live_calls} live model calls"
    if shape.divergence is None:
        typer.echo(f"{shape.verdict}: {counted}")
    else:
        typer.echo(f"{shape.verdict} at entry {shape.divergence.seq}: {plain(shape.divergence.message)}")


async def _replay(  # noqa: PLR0917 — what the command was given
    bundle: "Bundle",
    find: "FindFactory",
    mode: Any,
    changes: "Changes",
    url: str | None,
    project: str | None,
    *,
    simulate: bool,
) -> "tuple[Report, list[str]]":
    """What came of it, and what would help where no model answered."""
    from homeostat.client.client import Client
    from homeostat.runs.replaying.changes import replay_changed
    from homeostat.runs.replaying.journal import Mode
    from homeostat.runs.replaying.replay import replay as run_again

    if mode is Mode.EXACT:
        return await run_again(bundle, find), []
    async with Client(url, project=project) as client:
        keys = _keys(client)
        report = await replay_changed(
            bundle, find, changes, mode=mode, upstream=_models(client, keys, simulate=simulate)
        )
        return report, _help_out(client, keys, report)


def _keys(client: "Client") -> "KeyRing":
    """The keys of agents that were registered with that server from here."""
    import os

    from homeostat.client.keys import KEYS_FILE, KeyRing, default_data_dir

    keys = KeyRing(Path(default_data_dir(os.environ)) / KEYS_FILE, url=client.url)
    keys.open()
    return keys


def _models(client: "Client", keys: "KeyRing", *, simulate: bool) -> "Upstream":
    """Who answers model calls that are made anew: the gateway, as the agents would be answered, or a simulation."""
    if simulate:
        from homeostat.adapters.upstreams.simulated import SimulatedUpstream

        return SimulatedUpstream()
    from homeostat.client.tools import GatewayUpstream

    return GatewayUpstream(client, keys)


def _help_out(client: "Client", keys: "KeyRing", report: "Report") -> list[str]:
    """What would help agents that no model answered."""
    from homeostat.core.ids import ProjectId

    lines: list[str] = []
    for agent_id in report.unanswered:
        agent = (ProjectId(client.project), agent_id)
        if keys.get(agent) is None:
            known = " and ".join(keys.urls(agent))
            elsewhere = f"; there is one for {known}, which --url can name" if known else ""
            lines.append(f"homeostat: no key of agent {plain(agent_id)} for {client.url} is here{elsewhere}")
    if lines:
        return [*lines, "  Replay where the agent's worker runs, or say --simulate-models."]
    return ["  --url names another server; --simulate-models asks none."] if report.unanswered else []


def _cast(named: list[str]) -> "FindFactory":
    from homeostat.runs.replaying.casting import EVERYBODY, cast_from, lies_below

    targets: dict[str, str] = {}
    for word in named:
        agent_id, separator, target = word.rpartition("=")
        targets[agent_id if separator else EVERYBODY] = target
    return cast_from(targets, lies_below(Path.cwd()))


def _changes(
    prompt: str | None, model: str | None, deny_model: list[str] | None, deny_tool: list[str] | None
) -> "Changes":
    """What is to be otherwise."""
    from homeostat.cli.files import text_of
    from homeostat.runs.replaying.changes import Changes

    text = text_of(prompt[1:]) if prompt is not None and prompt.startswith("@") else prompt
    return Changes(prompt=text, model=model, deny_models=deny_model or (), deny_tools=deny_tool or ())


@contextmanager
def _bundle(subject: str, url: str | None, project: str | None) -> "Generator[Bundle]":
    """The bundle a word names: a file, or a run that a server has."""
    from tempfile import TemporaryDirectory

    from homeostat.client.bundles import download
    from homeostat.runs.bundle import read_bundle

    if not Path(subject).exists():
        subject = bare(subject)
    if Path(subject).exists() or not subject.startswith("run_"):
        yield read_bundle(Path(subject))
        return
    with TemporaryDirectory(prefix="homeostat-") as folder:
        path = Path(folder) / subject

        async def work(client: "Client") -> None:
            await download(client, subject, path)

        talk(work, url, project)
        yield read_bundle(path)


def _say_json(value: object) -> None:
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
