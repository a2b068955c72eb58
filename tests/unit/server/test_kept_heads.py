"""The files that signed heads are kept in: one that was torn by a power cut, and one that somebody damaged."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from homeostat.app.assemble import System
from homeostat.core.ids import DEFAULT_PROJECT, RunId
from homeostat.runs.bundle import unpack
from homeostat.runs.verify import verify
from homeostat.testing.crews import crew, eventually

Json = dict[str, Any]


@pytest.fixture
async def run_id(system: System, http: httpx2.AsyncClient) -> RunId:
    """A run that waits for an approval, with a head that was signed on demand."""
    async with crew(system.kernel, "ann"):
        tasks = [{"name": "a", "agent": "ann"}, {"name": "b", "agent": "ann", "after": ["a"], "approval": True}]
        found = RunId((await http.post("/v1/runs", json={"goal": "x", "tasks": tasks})).json()["run_id"])

        async def held() -> bool:
            shown = (await http.get(f"/v1/runs/{found}")).json()
            return shown["status"] == "paused" and shown["at_rest"]

        await eventually(held)
    assert (await http.get(f"/v1/runs/{found}/head")).status_code == 200
    return found


@pytest.fixture
def kept(tmp_path: Path, run_id: RunId) -> Path:
    return tmp_path / "heads" / f"{run_id}.heads"


def tear(kept: Path) -> None:
    whole = kept.read_bytes()
    kept.write_bytes(whole + whole[: len(whole) // 2])


def damage(kept: Path) -> None:
    first, last = kept.read_bytes().splitlines()
    kept.write_bytes(first[:-20] + b"\n" + last + b"\n")


async def killed(system: System, http: httpx2.AsyncClient, run_id: RunId) -> None:
    """A run is at rest before its last head is signed: that head is waited for."""
    (await http.post(f"/v1/runs/{run_id}/kill", json={"reason": "enough"})).raise_for_status()

    async def sealed() -> bool:
        return len(await system.runs.ledgers.heads(run_id)) == 2

    await eventually(sealed)


async def test_a_head_that_was_torn_was_never_given_out_and_spoils_no_other(
    system: System, http: httpx2.AsyncClient, run_id: RunId, kept: Path
) -> None:
    tear(kept)
    assert (await http.get(f"/v1/runs/{run_id}/verify")).json()["valid"]
    await killed(system, http, run_id)
    first, last = await system.runs.ledgers.heads(run_id)
    assert first.size < last.size
    exported = await http.get(f"/v1/runs/{run_id}/export")
    verdict = verify(unpack([exported.content], where="the answer"))
    assert (verdict.ok, verdict.heads) == (True, (first.size, last.size))


async def test_a_head_that_was_damaged_is_told_of(
    system: System, http: httpx2.AsyncClient, run_id: RunId, kept: Path
) -> None:
    await killed(system, http, run_id)
    damage(kept)
    verdict = (await http.get(f"/v1/runs/{run_id}/verify")).json()
    assert (verdict["valid"], verdict["finding"]["code"]) == (False, "head_damaged")
    for route in ("head", "export"):
        answer = await http.get(f"/v1/runs/{run_id}/{route}")
        assert (answer.status_code, answer.json()["code"]) == (409, "ledger_broken"), answer.text
        assert "a signed head" in answer.json()["detail"]
    verified = await system.runs.ledgers.verify(DEFAULT_PROJECT, run_id)
    assert verified.finding is not None
