"""Replays of what handles secrets: the ledger has none, and the code still does the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from homeostat.adapters.upstreams.simulated import SimulatedUpstream
from homeostat.adapters.upstreams.simulated.upstream import INSTANT
from homeostat.agent.functions import FunctionAgent
from homeostat.agent.turn import Turn
from homeostat.core.ids import RunId
from homeostat.core.records.provenance import Entry
from homeostat.runs.bundle import read_bundle
from homeostat.runs.replaying.journal import Mode
from homeostat.runs.replaying.replay import Report, replay
from homeostat.testing.recorded_runs import MemoryLedger, bundle_of, studio, written

EARLIER = Path(__file__).parent / "data" / "earlier-rules.homeostat"
"""A run of `careless`, written when fewer secrets were known."""
BEFORE_PAIRS = Path(__file__).parent / "data" / "before-pairs.homeostat"
"""A run of `deploying`, written when secrets were known by the names of members, and not by those beside them."""

BEFORE_OPTIONS = Path(__file__).parent / "data" / "before-options.homeostat"
"""A run of `connecting`, written when keys of fewer makes were known and no lists of arguments, and more was hidden."""


async def careless(turn: Turn) -> Any:
    """Hands secrets to steps, models and tools, under names and in texts of every kind."""
    login = await turn.step("login", _log_in, turn.input, options={"userToken": "tok-hunter3"})
    arguments = json.dumps({"user": "bob", "password": "hunter2secret"})
    history = [
        {"role": "user", "content": "AWS_SECRET_ACCESS_KEY=hunter4/secret"},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "login", "arguments": arguments}}]},
        {"role": "tool", "tool_call_id": "1", "content": login["raw"]},
    ]
    first = await turn.llm(history, model="sim-small", name="think")
    second = await turn.llm([*history, {"role": "user", "content": "go on"}], model="sim-small", name="again")
    found = await turn.call("search", headers="X-Api-Key: hunter6secret", api_key="hunter7", raw=login["raw"])
    await turn.write("note", {"text": "password: hunter8", "token": "hunter9"})
    return {"login": login, "said": [first.text, second.text], "found": found, "api_keys": ["hunter0"]}


async def _log_in(given: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    del given, options
    return {"raw": '{"ok": true, "access_token": "tok-hunter5"}', "secret": "hunter1"}


async def deploying(turn: Turn) -> Any:
    """Hands secrets on as what stands beside their names: in environments, headers, forms and manifests."""
    environment = [{"name": "HOME", "value": "/srv"}, {"value": "hunter2", "name": "DB_PASSWORD"}]
    headers = [["Accept", "text/html"], ["Authorization", "Basic hunter3"]]
    manifest = "env:\n- name: API_KEY\n  value: hunter4\n"
    made = await turn.step("deploy", _deploy, environment, headers=headers)
    first = await turn.llm([{"role": "user", "content": manifest}], model="sim-small", name="think")
    found = await turn.call("search", env=environment, raw=json.dumps({"headers": headers}))
    await turn.write("note", {"fields": made})
    return {"made": made, "said": first.text, "found": found, "headers": headers}


async def _deploy(given: list[Any], headers: list[Any]) -> list[dict[str, Any]]:
    del given, headers
    return [{"Key": "client_secret", "Value": "hunter5"}, {"Key": "city", "Value": "Rome"}]


async def connecting(turn: Turn) -> Any:
    """Hands on secrets that were not known once, and what was taken for one."""
    command = ["login", "--token", "hunter1", "--db_password", "hunter2"]
    form = {"password": {"type": "string", "minLength": 8}, "token": {"type": ["string", "null"]}}
    wrong = {"password": ["is too short"]}
    words = "the ring-bearer Frodo-Baggins, bearer certificates and a sk-learn-pipeline-with-many-parts"
    made = await turn.step("connect", _connect, command, url="redis://:hunter3x@host:6379/0", form={"properties": form})
    keys = ("sk_live_", "rk_test_", "hf_", "gsk_", "npm_", "whsec_", "pypi-AgE", "xapp-1-A1B2-123-")
    text = " ".join(key + "hunter4x" * 6 for key in keys) + f" SG.{'hunter5x' * 3}.{'hunter5x' * 5}"
    first = await turn.llm([{"role": "user", "content": f"{words}; {text}"}], model="sim-small", name="think")
    found = await turn.call("search", form={"properties": form}, errors=wrong, SecretString="hunter6", raw=made["raw"])
    await turn.write(
        "note", {"made": made, "words": words, "log": "got {'SecretString': 'hunter7'} for SecretString=hunter8"}
    )
    return {"made": made, "said": first.text, "found": found, "errors": wrong, "parameters": form, "args": command}


async def _connect(given: list[str], url: str, form: dict[str, Any]) -> dict[str, Any]:
    raw = json.dumps({"SecretString": json.dumps({"user": "bob"}), "argv": given, "url": url})
    return {"raw": raw, "form": form, "url": url}


async def recorded(agent: Any = careless) -> list[Entry]:
    async with studio() as bench:
        async with bench.working(careless=agent):
            run_id = RunId("run_" + "5" * 24)
            turn_id = await bench.send("careless", {"dbPassword": "hunter-in"}, run_id=run_id)
            await bench.end(turn_id)
        return await written(MemoryLedger(bench.store), bench.store, run_id, {turn_id: 0})


async def _again(bundle: Any, mode: Mode = Mode.EXACT, agent: Any = careless) -> Report:
    upstream = SimulatedUpstream(pace=INSTANT)
    return await replay(bundle, lambda _: lambda: FunctionAgent(agent), mode=mode, upstream=upstream)


@pytest.mark.parametrize("agent", [careless, deploying, connecting])
async def test_no_secret_is_in_the_ledger_and_a_replay_is_identical(agent: Any) -> None:
    entries = await recorded(agent)
    assert "hunter" not in "".join(entry.payload for entry in entries)
    for mode in (Mode.EXACT, Mode.WHAT_IF):
        report = await _again(bundle_of(entries), mode, agent)
        assert (report.verdict, report.live_calls) == ("identical", 0), report


@pytest.mark.parametrize(
    ("path", "agent", "entries"),
    [(EARLIER, careless, 8), (BEFORE_PAIRS, deploying, 7), (BEFORE_OPTIONS, connecting, 7)],
)
async def test_a_ledger_that_was_written_by_earlier_rules_is_verified_and_replayed(
    path: Path, agent: Any, entries: int
) -> None:
    for mode in (Mode.EXACT, Mode.WHAT_IF):
        report = await _again(read_bundle(path), mode, agent)
        assert (report.verdict, report.live_calls, report.entries) == ("identical", 0, entries), report


async def test_a_change_is_found_in_a_ledger_that_was_written_by_earlier_rules() -> None:
    async def other(turn: Turn) -> Any:
        return await turn.step("login", _log_in, turn.input, options={"userToken": "tok-hunter4"})

    report = await replay(read_bundle(EARLIER), lambda _: lambda: FunctionAgent(other))
    assert report.divergence is not None
    assert report.divergence.seq == 2
