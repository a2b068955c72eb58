"""`homeostat doctor`: what is not as it should be here, and what to do about it."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from homeostat.cli.connection import CLIENT_RETRY_SECONDS, Url
from homeostat.cli.failures import ERROR
from homeostat.cli.output import Output, OutputOption, show

if TYPE_CHECKING:
    from homeostat.app.settings import Settings
    from homeostat.app.stores import Schema

FREE_BYTES_MIN = 1 << 30
SQLITE_MIN = (3, 35, 0)  # RETURNING


class Finding(NamedTuple):
    """One thing that was looked at. What is not in order says how it gets there."""

    check: str
    state: str  # ok, note or bad
    told: str
    fix: str = ""


def doctor(*, url: Url = None, output: OutputOption = Output.TABLE) -> None:
    """Look at this machine, the settings, the store and the server, and say what to do about what is wrong."""
    import asyncio

    findings = [*_machine(), *_settings()]
    findings += asyncio.run(_server(url))
    if output is Output.JSON:
        show({"findings": [one._asdict() for one in findings]}, output)
    else:
        for one in findings:
            typer.echo(f"{one.state:<5} {one.check:<14} {one.told}")
            if one.fix:
                typer.echo(f"{'':<20} → {one.fix}")
    if any(one.state == "bad" for one in findings):
        raise typer.Exit(ERROR)


def _machine() -> list[Finding]:
    import sqlite3

    version = ".".join(map(str, sys.version_info[:3]))
    found = [Finding("python", "ok", version)]
    lite = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < SQLITE_MIN:
        fix = "Use a Python that brings SQLite 3.35 or newer, or HOMEOSTAT_STORE_URL=postgresql://…"
        found.append(Finding("sqlite", "bad", f"{lite} is too old", fix))
    else:
        found.append(Finding("sqlite", "ok", lite))
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4096:
        fix = f"ulimit -n {min(hard, 65536)} before starting: every agent's connection is a file."
        found.append(Finding("open files", "note", f"at most {soft}", fix))
    else:
        found.append(Finding("open files", "ok", f"at most {soft}"))
    return found


def _settings() -> list[Finding]:
    from homeostat.app.settings import read_settings
    from homeostat.core.errors import HomeostatError

    try:
        settings = read_settings(os.environ)
    except HomeostatError as error:
        return [Finding("settings", "bad", error.message, "homeostat config show lists them; unset what is wrong.")]
    found = [Finding("settings", "ok", f"{len(settings.origins)} set in the environment")]
    found.append(_access(settings))
    if settings.store_url is None and not settings.ephemeral:
        found += _data_dir(settings.data_dir)
    found += _store(settings)
    if all(one.simulated for one in settings.upstreams):
        fix = "HOMEOSTAT_UPSTREAMS=openai,anthropic, with their keys in HOMEOSTAT_OPENAI_API_KEY and the like."
        found.append(Finding("upstreams", "note", "model calls are answered by a simulation", fix))
    else:
        found.append(Finding("upstreams", "ok", ", ".join(one.name for one in settings.upstreams)))
    return found


def _access(settings: "Settings") -> Finding:
    from homeostat.app.settings import Auth

    if settings.loopback:
        return Finding("access", "ok", f"{settings.host} is reached from this machine alone")
    if settings.auth is Auth.NONE:
        told = f"{settings.host} is reached by others, and nobody has to log in: it will not start"
        return Finding("access", "bad", told, "HOMEOSTAT_AUTH=keys, or HOMEOSTAT_HOST=127.0.0.1.")
    if not settings.allowed_hosts:
        fix = "HOMEOSTAT_ALLOWED_HOSTS=name-of-this-server, so that no other name can be made to lead here."
        return Finding("access", "note", "keys are asked for, under any host name", fix)
    return Finding("access", "ok", "keys are asked for")


def _data_dir(path: Path) -> list[Finding]:
    place = path
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return [Finding("data", "bad", f"{place} is no directory", "HOMEOSTAT_DATA_DIR=/a/place/of/yours")]
    if not os.access(place, os.W_OK):
        return [Finding("data", "bad", f"{path} cannot be written", "HOMEOSTAT_DATA_DIR=/a/place/of/yours")]
    free = shutil.disk_usage(place).free
    if free < FREE_BYTES_MIN:
        told = f"{free >> 20} MiB are free for {path}"
        return [Finding("data", "bad", told, "Make room, or set HOMEOSTAT_DATA_DIR to a larger disk.")]
    if path.exists() and path.stat().st_mode & 0o077:
        return [Finding("data", "note", f"others on this machine can read {path}", f"chmod 700 {path}")]
    return [Finding("data", "ok", f"{path}, {free >> 30} GiB free")]


def _store(settings: "Settings") -> list[Finding]:
    import asyncio

    from homeostat.app import stores
    from homeostat.core.errors import HomeostatError

    if settings.ephemeral:
        fix = "Unset HOMEOSTAT_EPHEMERAL to keep it."
        return [Finding("store", "note", "everything is forgotten at the end", fix)]
    url = settings.store_url or stores.embedded_url(settings.data_dir)
    try:
        found = asyncio.run(stores.schema(url))
    except HomeostatError as error:
        return [Finding("store", "bad", error.message, "Is it running, and is HOMEOSTAT_STORE_URL right?")]
    return [_schema(found), *([] if found.clock_ms is None else [_clock(found.clock_ms)])]


def _schema(found: "Schema") -> Finding:
    if found.unknown:
        fix = "Update Homeostat here: the store was used by a newer one."
        return Finding("store", "bad", f"{found.store} has {', '.join(found.unknown)}", fix)
    if found.applied and found.pending:
        return Finding("store", "note", f"{found.store} lacks {', '.join(found.pending)}", "homeostat db migrate")
    return Finding("store", "ok", found.store + ("" if found.applied else " (not made yet)"))


def _clock(offset_ms: int) -> Finding:
    if not offset_ms:
        return Finding("clock", "ok", "it agrees with the store's")
    way = "behind" if offset_ms > 0 else "ahead of"
    told = f"it is {abs(offset_ms) / 1000:.1f} s {way} the store's, whose time Homeostat goes by here"
    return Finding(
        "clock", "note", told, "Set this machine's clock, or that of the store: timedatectl shows whether it is kept."
    )


async def _server(url: str | None) -> list[Finding]:
    from homeostat.client.client import Client
    from homeostat.core.errors import HomeostatError, ServerUnreachable, SettingInvalid

    try:
        there = Client(url, retry_seconds=CLIENT_RETRY_SECONDS)
    except SettingInvalid as error:
        return [Finding("server", "bad", error.message, "export HOMEOSTAT_URL=http://127.0.0.1:7700")]
    async with there as client:
        try:
            session: Any = await client.read_json("/v1/session")
        except ServerUnreachable:
            return [
                Finding("server", "note", f"none at {client.url}", "homeostat up starts one; HOMEOSTAT_URL names one.")
            ]
        except HomeostatError as error:
            return [Finding("server", "bad", error.message, "Is HOMEOSTAT_KEY current? homeostat key list shows.")]
        found = [
            Finding("server", "ok", f"{client.url} knows you as {session['name']} ({session['role'] or 'no role'})")
        ]
        if session["login_required"] and session["kind"] == "nobody":
            found.append(Finding("key", "bad", "it asks for a key", "export HOMEOSTAT_KEY=…"))
            return found
        try:
            found.append(_fleet(await client.read_json("/v1/agents?status=dead&limit=1")))
        except HomeostatError as error:
            found.append(Finding("agents", "note", error.message))
        try:
            found += _buttons((await client.read_json("/v1/red-button"))["pressed"])
        except HomeostatError as error:
            found.append(Finding("red button", "note", error.message))
        return found


def _buttons(pressed: list[Any]) -> list[Finding]:
    """A red button holds runs for as long as nobody remembers it."""
    from homeostat.cli import red_button
    from homeostat.core.clock import SystemClock

    now = SystemClock().now_ms()
    found = [
        Finding("red button", "note", f"that of {red_button.who_pressed(one, now)}", red_button.undone(one["project"]))
        for one in pressed
    ]
    return found or [Finding("red button", "ok", "none is pressed")]


def _fleet(agents: list[Any]) -> Finding:
    if agents:
        return Finding("agents", "note", "some are dead", "homeostat get agents -s dead; homeostat why agent ID")
    return Finding("agents", "ok", "none is dead")
