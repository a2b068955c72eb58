"""`homeostat db`: what is applied, what is pending, and that looking changes nothing."""

import json
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from homeostat.adapters.stores.statements import migrations
from homeostat.app.stores import open_engine
from homeostat.cli.application import application

ALL = {
    dialect: [f"{number:04d}_{name}" for number, name, _ in migrations(dialect)] for dialect in ("sqlite", "postgres")
}


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(application, ["db", *arguments], env={"HOMEOSTAT_STORE_URL": None, **environment})


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    if request.param == "postgres":
        return "postgres", request.getfixturevalue("postgres_url")
    return "sqlite", f"sqlite://{tmp_path}/deep/er/turns.db"


def test_a_store_is_looked_at_and_brought_up_to_date(store: tuple[str, str]) -> None:
    dialect, url = store
    before = json.loads(run("status", "--store-url", url, "-o", "json").stdout)
    assert (before["applied"], before["pending"]) == ([], ALL[dialect])
    done = run("migrate", HOMEOSTAT_STORE_URL=url)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [f"applied  {name}" for name in ALL[dialect]]
    after = json.loads(run("status", "-o", "json", HOMEOSTAT_STORE_URL=url).stdout)
    assert (after["applied"], after["pending"], after["unknown"]) == (ALL[dialect], [], [])
    again = json.loads(run("migrate", "--store-url", url, "-o", "json").stdout)
    assert again["applied"] == []
    assert "already" in run("migrate", "--store-url", url).stdout
    table = run("status", "--store-url", url).stdout
    assert all(f"applied  {name}" in table for name in ALL[dialect])


def test_credentials_are_not_shown(postgres_url: str) -> None:
    password = postgres_url.split(":")[2].split("@", maxsplit=1)[0]
    for verb in ("status", "migrate"):
        shown = run(verb, "--store-url", postgres_url, "-o", "json").stdout
        assert "127.0.0.1" in shown
        assert password not in shown


def test_looking_makes_no_file(tmp_path: Path) -> None:
    assert run("status", "--store-url", f"sqlite://{tmp_path}/x/turns.db").exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_embedded_store_is_meant_where_none_is_named(tmp_path: Path) -> None:
    found = json.loads(run("status", "-o", "json", HOMEOSTAT_DATA_DIR=str(tmp_path)).stdout)
    assert found["store"] == str(tmp_path / "homeostat.db")


def test_a_store_of_a_newer_version_says_so(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/turns.db"
    run("migrate", "--store-url", url)
    connection = sqlite3.connect(tmp_path / "turns.db")
    connection.execute("INSERT INTO schema_migrations VALUES (9999, 'tomorrow')")
    connection.commit()
    connection.close()
    assert json.loads(run("status", "--store-url", url, "-o", "json").stdout)["unknown"] == ["9999_tomorrow"]
    assert "9999_tomorrow  (of a newer version)" in run("status", "--store-url", url).stdout


async def test_whoever_opens_a_store_of_a_newer_version_is_warned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite://{tmp_path}/turns.db"
    engine = await open_engine(url)
    await engine.close()
    assert "newer" not in caplog.text
    connection = sqlite3.connect(tmp_path / "turns.db")
    connection.execute("INSERT INTO schema_migrations VALUES (9999, 'tomorrow')")
    connection.commit()
    connection.close()
    await (await open_engine(url)).close()
    assert "a newer version has changed the store, which this one may misread: 9999_tomorrow" in caplog.text


@pytest.mark.parametrize(
    ("url", "code"), [("mysql://x/y", 2), ("sqlite://", 2), ("postgresql://nobody@127.0.0.1:1/x", 1)]
)
def test_a_store_that_cannot_be_is_told_in_a_line(url: str, code: int) -> None:
    result = run("status", "--store-url", url)
    assert result.exit_code == code
    assert result.stderr.startswith("homeostat: ")
    assert "Traceback" not in result.output
    assert "Idempotency-Key" not in result.stderr, "nobody repeats a command under a key"
    if code == 1:
        assert "--store-url" in result.stderr


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_place_that_cannot_be_is_told_in_a_line(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    result = run("migrate", "--data-dir", str(tmp_path / place))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"homeostat: the store's place is not valid: {tmp_path / place}: ")
    environment = {"HOMEOSTAT_STORE_URL": None, "HOMEOSTAT_URL": "http://127.0.0.1:1"}
    looked = CliRunner().invoke(
        application, ["doctor"], env={**environment, "HOMEOSTAT_DATA_DIR": str(tmp_path / place)}
    )
    assert looked.exit_code == 1
    assert f"{tmp_path / 'file'} is no directory" in looked.stdout
