"""`homeostat enqueue` and `homeostat turn`: send a message, and see what becomes of it."""

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.failures import ERROR, USAGE, fail
from homeostat.cli.looking import look
from homeostat.cli.nouns import bare
from homeostat.cli.numbers import finite
from homeostat.cli.output import Output, OutputOption, show

if TYPE_CHECKING:
    from homeostat.client.client import Client
    from homeostat.core.records.view import Deliverable

AUTHORS_CODES = frozenset({"malformed_payload", "result_fields_missing"})
"""Failures that say: the agent gave what cannot be a result, or not the result it was asked for."""


def enqueue(
    agent: Annotated[str, typer.Argument(help="The agent's id.", parser=bare)],
    payload: Annotated[str, typer.Argument(help="The message, as JSON; - reads it from standard input.")],
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the deliverable and show it.")] = False,
    timeout: Annotated[float, typer.Option(callback=finite, help="How many seconds to wait.")] = 60.0,
    type_: Annotated[str, typer.Option("--type", help="turn, ui_action, …")] = "turn",
    result_field: Annotated[
        list[str] | None, typer.Option(help="A field the result must have; give it several times for several.")
    ] = None,
    key: Annotated[str | None, typer.Option("--idempotency-key", help="Send the message once under this key.")] = None,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Put a message into an agent's inbox."""
    from homeostat.core.codec import from_json

    message = _json_of(payload)

    async def work(client: "Client") -> None:
        accepted = await client.enqueue(
            agent, message, type=type_, result_fields=result_field or None, idempotency_key=key
        )
        if not wait:
            show(accepted, output)
            return
        ended, told = await waited(client, accepted.turn_id, timeout)
        show(told, output)
        if ended.error is not None:
            raise _failed(agent, from_json(ended.error))

    talk(work, url, project)


async def waited(client: "Client", turn_id: str, seconds: float) -> "tuple[Deliverable, Any]":
    """How a turn ended, and that as the API tells it."""
    from homeostat.core.clock import SystemClock

    clock = SystemClock()
    until = clock.monotonic() + seconds

    async def ended() -> "tuple[Deliverable, Any]":
        end = await client.deliverable(turn_id, wait=max(0.0, until - clock.monotonic()))
        return end, await client.read_json(f"/v1/turns/{turn_id}/deliverable")

    return await look(ended, left=turn_id, until=until)


def _failed(agent: str, error: Any) -> typer.Exit:
    """A turn that failed is no success. What an agent's author can put right is told apart from what went wrong."""
    told = cast("dict[str, Any]", error) if isinstance(error, dict) else {"message": error}
    code = USAGE if told.get("code") in AUTHORS_CODES else ERROR
    return fail(f"the turn of {agent} failed: {told.get('message')}", hint=str(told.get("hint") or ""), code=code)


def turn(
    turn_id: Annotated[str, typer.Argument(help="The turn's id.", parser=bare)],
    *,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a turn as it stands now."""

    async def work(client: "Client") -> None:
        from homeostat.client.client import path_part

        show(await client.read_json(f"/v1/turns/{path_part(turn_id)}"), output)

    talk(work, url, project)


def _json_of(text: str) -> object:
    import sys

    from homeostat.core.codec import from_json
    from homeostat.core.errors import MalformedPayload

    try:
        return from_json(sys.stdin.read() if text == "-" else text)
    except MalformedPayload as error:
        raise fail(
            f"the message is not valid: {error.facts['problem']}",
            hint='Quote it for the shell, as in \'{"question": "…"}\' or \'"a plain text"\'.',
            code=USAGE,
        ) from error
