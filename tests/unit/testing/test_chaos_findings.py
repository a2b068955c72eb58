"""Whatever a campaign, a power cut or a failing disk shows is in its verdict, and of an honest history nothing is."""

import json
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from homeostat.core.ids import Chance
from homeostat.testing.chaos import campaign as campaigns
from homeostat.testing.chaos import power, storage
from homeostat.testing.chaos.campaign import Ask, campaign
from homeostat.testing.chaos.disk import Kind, Operation
from homeostat.testing.chaos.faults import Faults
from homeostat.testing.chaos.installation import Installation, Size
from homeostat.testing.chaos.journals import Spell

SEED = 1
SIZE = Size(absent=True)
BEGUN = {"begun": "a", "agent": "patient", "by": 7, "at": 11.0}
TOLD = {"turn": "turn_a", "payload": "{}"}


# --- campaigns ---------------------------------------------------------------------------------------------------


class Cast:
    """Everybody in a campaign at once: nobody does anything, and all comes to rest unless told otherwise."""

    def __init__(self, *, rests: bool = True) -> None:
        self.rests = rests
        self.isolated = [SimpleNamespace(spells=[Spell("patient", 8.0, 10.0, 12.0)])]
        self.desk = SimpleNamespace(open=self.live, close=lambda: None)

    async def live(self, *_: object, **__: object) -> None: ...

    settle_in = tend = audit = live

    async def rest(self, *_: object, **__: object) -> bool:
        return self.rests


async def found(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *,
    noted: Sequence[dict[str, Any]] = (),
    restless: str = "",
    history: Sequence[str] = (),
    verified: Sequence[str] = (),
    **hurt: Any,
) -> tuple[list[str], bool]:
    """What a campaign finds where nothing is real, and whether it says that all came to rest."""
    cast = {name: Cast(rests=name != restless) for name in ("Citizens", "Operators", "Patients", "rest")}

    @asynccontextmanager
    async def there(*_: object, **__: object) -> AsyncGenerator[Any]:
        nobody = dict.fromkeys(("urls", "gateway_urls", "stalls", "troubles", "fallen"), ())
        yield SimpleNamespace(
            **dict.fromkeys(("open", "begin", "leave"), Cast().live),
            **{**nobody, **hurt},
            everybody=lambda *_: (),
            counts=Counter[str](),
            folder=folder,
            store_in_trouble=False,
            size=SIZE,
            bus=SimpleNamespace(url=""),
            store=SimpleNamespace(url="", inspect=lambda: None),
        )

    @asynccontextmanager
    async def kernel(*_: object) -> AsyncGenerator[Any]:
        yield SimpleNamespace(store=None)

    async def check(*_: object, **__: object) -> Sequence[str]:
        return history

    async def verify_all(_: object) -> Any:
        return SimpleNamespace(violations=verified)

    for name in ("Citizens", "Operators", "Patients"):
        monkeypatch.setattr(campaigns, name, lambda *_, name=name: cast[name])
    for name in ("inflict", "_load", "_until_served"):
        monkeypatch.setattr(campaigns, name, Cast().live)
    monkeypatch.setattr(campaigns, "Faults", lambda _: SimpleNamespace(known={}))
    monkeypatch.setattr(campaigns, "installation", there)
    monkeypatch.setattr(campaigns, "kernel_on", kernel)
    monkeypatch.setattr(campaigns, "rest", cast["rest"].rest)
    monkeypatch.setattr(campaigns, "check", check)
    monkeypatch.setattr(campaigns, "verify_all", verify_all)
    (folder / "told-7.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in noted))
    verdict = await campaign(Ask("sqlite", SEED, 0.0, goals={}, size=SIZE), folder)
    return verdict.violations, verdict.rest_seconds is not None


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ({}, []),
        ({"noted": [TOLD, {**BEGUN, "at": 12.5}]}, []),
        ({"noted": [BEGUN]}, ["always_the_isolated_are_not_served: "]),
        ({"noted": [TOLD, {"broken": "a", "error": "x"}]}, ["always_what_was_acknowledged_is_kept: {'broken': 'a'"]),
        ({"noted": [{"nothing": 1}]}, ["always_what_was_acknowledged_is_kept: an entry that says nothing: "]),
        ({"troubles": ["store killed: it stays away"]}, ["store killed: it stays away"]),
        ({"fallen": ["worker: oh"]}, ["somebody fell: worker: oh"]),
        ({"history": ["always_kept: turn_a"]}, ["always_kept: turn_a"]),
        ({"verified": ["always_chained: run_a"]}, ["verify --all: always_chained: run_a"]),
    ],
)
async def test_whatever_a_campaign_finds_comes_into_its_verdict(
    history: dict[str, Any], words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    violations, rested = await found(monkeypatch, tmp_path, **history)
    assert rested
    assert len(violations) == len(words)
    assert all(map(str.startswith, violations, words))


@pytest.mark.parametrize("who", ["rest", "Operators", "Patients"])
async def test_whoever_does_not_come_to_rest_a_campaign_says_so(
    who: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    violations, rested = await found(monkeypatch, tmp_path, restless=who)
    assert not rested
    assert [words.partition(":")[0] for words in violations] == ["finally_all_comes_to_rest"]


class Somebody:
    """A process as it looks from outside."""

    role = SimpleNamespace(title="server")
    last_words = "oh"

    def __init__(self, *, lives: int = 1, alive: bool = True) -> None:
        self.lives, self.alive = lives, alive

    def kill(self) -> None:
        self.alive = False

    def start(self) -> None:
        self.lives, self.alive = self.lives + 1, True

    async def ready(self) -> None: ...


async def test_who_ended_by_itself_has_fallen_and_who_was_killed_has_not(tmp_path: Path) -> None:
    anybody: Any = SimpleNamespace(mortal=False, library=None, world=None)
    hurt = Installation("sqlite", Size(), anybody, anybody, anybody, tmp_path, Chance(SEED), anybody)
    well, fallen, killed, unborn = Somebody(), Somebody(alive=False), Somebody(alive=False), Somebody(lives=0)
    unborn.alive = False
    everybody: Any = [well, killed, unborn]
    hurt.processes["server"], hurt.busy = everybody, {everybody[1]}
    assert hurt.fallen == []
    everybody.append(fallen)
    assert hurt.fallen == ["server: oh"]
    victim: Any = [well]
    hurt.processes["server"] = victim
    await Faults(hurt).do("server killed")
    assert hurt.troubles == []
    well.kill()
    await Faults(hurt).do("server killed")
    assert hurt.troubles == ["somebody fell: server: oh"]


# --- power cuts and failing disks --------------------------------------------------------------------------------


def whole(path: Path) -> None:
    """A database whose pages are in order, large enough that one can be spoilt behind its schema."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE kept (number INTEGER, words TEXT)")
        connection.execute("CREATE INDEX found ON kept (words)")
        connection.executemany("INSERT INTO kept VALUES (?, ?)", ((number, "x" * 200) for number in range(200)))
        connection.commit()


def nothing(_: Path) -> None: ...


def torn(path: Path) -> None:
    whole(path)
    with path.open("r+b") as file:
        file.seek(5 * 4096)
        file.write(bytes(2 * 4096))


def garbage(path: Path) -> None:
    path.write_bytes(b"no database at all" * 1_000)


UNREADABLE = "seed 1: the file cannot be read: "


@pytest.mark.parametrize(
    ("leave", "told", "words"),
    [
        (nothing, [], ""),
        (whole, [], ""),
        (torn, [], UNREADABLE),
        (garbage, [], UNREADABLE),
        (nothing, [TOLD], "seed 1: always_what_was_acknowledged_is_kept: turn_a: "),
    ],
)
async def test_a_file_that_is_not_whole_or_lost_what_was_told_is_found_out(
    leave: Any, told: list[dict[str, str]], words: str, tmp_path: Path
) -> None:
    leave(tmp_path / power.DATABASE)
    notes = "".join(json.dumps(entry) + "\n" for entry in told).encode()
    verdict = power.Verdict()
    await power.look([Operation(Kind.WRITE, "told-7.jsonl", 0, notes)], tmp_path, verdict, where="seed 1")
    assert len(verdict.violations) == bool(words)
    assert "".join(verdict.violations).startswith(words)
    assert verdict.ok is not bool(words)


@pytest.mark.parametrize(
    ("lives", "failed", "words", "gave_up"),
    [
        ([True], True, "", 0),
        ([True], False, "", 0),
        ([False, True], True, "", 1),
        ([False, False], True, "seed 1, sync 3: finally_all_comes_to_rest: it did not: oh", 1),
        ([False], False, "seed 1, sync 3: finally_all_comes_to_rest: it did not: oh", 0),
    ],
)
async def test_a_history_that_does_not_end_on_a_disk_that_failed_is_found_out(
    *, lives: list[bool], failed: bool, words: str, gave_up: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    left = list(lives)

    async def live(*_: object, **__: object) -> bool:
        (tmp_path / "log").write_text("oh")
        return left.pop(0)

    monkeypatch.setattr(storage, "_live", live)
    monkeypatch.setattr(storage, "_cut", Cast().live)
    done = [Operation(Kind.WRITE, "a.db", 0, b""), Operation(Kind.FAILED_SYNC if failed else Kind.SYNC, "a.db", 0, b"")]
    monkeypatch.setattr(storage.disk, "read", lambda _: done)
    nobody: Any = None
    verdict = power.Verdict()
    assert await storage._fail(nobody, tmp_path, SEED, "sync 3", verdict, lies=False) is failed
    assert verdict.violations == ([words] if words else [])
    assert (verdict.happened[storage.GAVE_UP], left) == (gave_up, [])
