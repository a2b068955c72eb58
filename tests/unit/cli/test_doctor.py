"""What the doctor says of a store that is shared: its schema, and whose clock is right."""

import json

import pytest
from typer.testing import CliRunner

from homeostat.adapters.stores.postgres import PostgresEngine
from homeostat.cli.application import application


def findings(url: str) -> dict[str, dict[str, str]]:
    told = CliRunner().invoke(application, ["doctor", "-o", "json"], env={"HOMEOSTAT_STORE_URL": url})
    return {one["check"]: one for one in json.loads(told.stdout)["findings"]}


def test_a_clock_that_agrees_with_the_stores_is_in_order(postgres_url: str) -> None:
    assert findings(postgres_url)["clock"]["state"] == "ok"


@pytest.mark.parametrize(("off_ms", "told"), [(90_000, "90.0 s behind"), (-90_000, "90.0 s ahead of")])
def test_a_clock_that_is_off_is_told(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, off_ms: int, told: str
) -> None:
    right = PostgresEngine.time_ms

    async def other(engine: PostgresEngine) -> float:
        return await right(engine) + off_ms

    monkeypatch.setattr(PostgresEngine, "time_ms", other)
    found = findings(postgres_url)["clock"]
    assert (found["state"], told in found["told"]) == ("note", True)
    assert found["fix"]


def test_a_file_has_no_clock_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert "clock" not in findings(f"sqlite://{tmp_path_factory.mktemp('doctor') / 'store.db'}")
