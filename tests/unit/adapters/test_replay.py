"""What was recorded is given again to the byte, piece by piece, to whoever asks the same; nobody else is answered."""

import json
from pathlib import Path
from typing import Any

import pytest

from homeostat.adapters.upstreams.replay import RecordingUpstream, ReplayUpstream, read_recordings
from homeostat.adapters.upstreams.simulated import Pace, SimulatedUpstream
from homeostat.app.assemble import assemble
from homeostat.app.settings import read_settings
from homeostat.core.errors import SettingInvalid
from homeostat.core.gateway_errors import UpstreamFailed
from homeostat.core.ports.upstream import Upstream, UpstreamRequest
from homeostat.testing.gateways import INSTANT, booth

CHAT: dict[str, Any] = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}]}


def request(**fields: Any) -> UpstreamRequest:
    return UpstreamRequest(
        b"POST", b"/v1/chat/completions", [(b"x", b"secret")], json.dumps({**CHAT, **fields}).encode()
    )


async def heard(upstream: Upstream, asked: UpstreamRequest) -> tuple[int, list[bytes]]:
    response = await upstream.send(asked)
    blocks: list[bytes] = []
    while block := await response.read():
        blocks.append(block)
    return response.status, blocks


async def test_what_was_recorded_is_given_again(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorder = RecordingUpstream(SimulatedUpstream(pace=Pace(0.0, 0.0001)), path)
    first = [
        await heard(recorder, request(stream=True)),
        await heard(recorder, request(n=1)),
        await heard(recorder, request(model=1)),
    ]
    assert b"secret" not in path.read_bytes()
    replay = ReplayUpstream(read_recordings(path))
    again = [
        await heard(replay, request(stream=True)),
        await heard(replay, request(n=1)),
        await heard(replay, request(model=1)),
    ]
    assert again == first
    assert len(again[0][1]) > 3, "in the blocks in which it came"
    assert again[2][0] == 400
    reordered = UpstreamRequest(b"POST", b"/v1/chat/completions", [], json.dumps({"n": 1, **CHAT}, indent=2).encode())
    assert await heard(replay, reordered) == first[1], "spaces and order say nothing"
    with pytest.raises(UpstreamFailed, match="nobody has asked"):
        await replay.send(request(n=2))


async def test_a_gateway_answers_from_recordings(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    async with booth(upstream=RecordingUpstream(SimulatedUpstream(pace=INSTANT), path)) as desk:
        first = await desk.chat(stream=True)
    async with booth(upstream=ReplayUpstream(read_recordings(path))) as desk:
        again = await desk.chat(stream=True)
        assert (again.status, again.body) == (200, first.body)
        assert (await desk.chat("Something else")).status == 502
        new, old = await desk.log()
        assert (new.code, old.code) == ("upstream_failed", "")
        assert old.usage.tokens_out > 0


async def test_the_settings_record_and_replay(tmp_path: Path) -> None:
    recorded = {"record_dir": str(tmp_path / "kept"), "ephemeral": True}
    async with assemble(read_settings({}, recorded)) as system:
        upstream = system.gateway.office.routes.outlets["openai"].upstream
        first = await heard(upstream, request())
    replayed = {"upstreams": f"openai=replay:{tmp_path / 'kept' / 'openai.jsonl'}", "ephemeral": True}
    async with assemble(read_settings({}, replayed)) as system:
        upstream = system.gateway.office.routes.outlets["openai"].upstream
        assert await heard(upstream, request()) == first


def test_a_file_that_holds_no_recordings(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text("{}")
    for name in ("r.jsonl", "none.jsonl"):
        with pytest.raises(SettingInvalid):
            read_recordings(tmp_path / name)
