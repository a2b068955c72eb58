"""Processes and servers are killed and stopped under load; what was acknowledged is kept, and every turn ends once."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from homeostat.adapters.doorbells.nats import NatsBus
from homeostat.core.ids import Chance, TurnId, process_seed
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.event import Channel, Event, subject
from homeostat.testing.chaos import journals
from homeostat.testing.chaos.scene import LEASE_SECONDS, STORES, Fault, Party, Postgres, Scene, SqliteFile, rest, scene
from homeostat.testing.history import Acknowledged, Effect, check
from homeostat.testing.parties import PROJECT, kernel_on

LOAD_SECONDS = float(os.environ.get("HOMEOSTAT_TEST_FAULT_SECONDS", "4"))
PATIENCE_SECONDS = 60.0


def acknowledged(folder: Path) -> Acknowledged:
    return journals.acknowledged(journals.entries(folder, "told-*.jsonl"))


def effects(folder: Path) -> list[Effect]:
    return journals.effects(journals.entries(folder, "effects-*.jsonl"))


def heard_events(folder: Path) -> list[Event]:
    return journals.heard(journals.entries(folder, "heard.jsonl"))


async def hurt_for(stage: Scene, seconds: float) -> None:
    """One fault after the other, for some time and until enough has happened to prove something."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    planned: list[Fault] = []
    while loop.time() < began + seconds or (missing(stage) and loop.time() < began + seconds + PATIENCE_SECONDS):
        planned = planned or stage.chance.sample([*stage.faults.values()], len(stage.faults))
        await planned.pop()()
        await asyncio.sleep(stage.chance.uniform(0.05, 0.6))
    await stage.settle()


def missing(stage: Scene) -> list[str]:
    """What has to happen yet: a run in which nothing happened proves nothing."""
    told = acknowledged(stage.folder)
    epochs: dict[TurnId, set[int]] = {}
    for effect in effects(stage.folder):
        epochs.setdefault(effect.turn_id, set()).add(effect.epoch)
    happened = {
        **{name: stage.done[name] > 0 for name in stage.faults},
        "turns accepted": len(told.turns) >= 20,
        "ends seen": len(told.ends) >= 10,
        "steps stored": bool(told.steps),
        "tools answered": bool(told.results),
        "turns taken over by other workers": any(len(seen) > 1 for seen in epochs.values()),
    }
    return [what for what, there in happened.items() if not there]


# --- tests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STORES.values(), ids=STORES)
@pytest.mark.timeout(300 + 3 * LOAD_SECONDS)
async def test_nothing_acknowledged_is_lost_and_every_turn_ends_once(
    kind: type[SqliteFile] | type[Postgres], tmp_path: Path
) -> None:
    seed = int(os.environ.get("HOMEOSTAT_TEST_FAULT_SEED", process_seed()))
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        heard.append(event)

    async with scene(kind, tmp_path, seed) as stage:
        listening = await NatsBus.connect(stage.nats.url)
        try:
            await listening.subscribe(subject(PROJECT, Channel.EVT, "agent", "*", "task"), hear)
            stage.start("client")
            for _ in range(3):
                stage.start("worker")
            await stage.ready()
            await hurt_for(stage, LOAD_SECONDS)
            assert stage.fallen == [], f"seed {seed}"
            await stage.clients[0].leave()

            async with kernel_on(stage.store.url, stage.nats.url, LEASE_SECONDS) as kernel:
                store = kernel.store
                rested = await rest(store)
                told, ran = acknowledged(tmp_path), effects(tmp_path)
                await until_heard(heard, store)
                violations = await check(store, [PROJECT], heard=heard, acknowledged=told, effects=ran)
            await stage.leave()
            story = f"seed {seed}: {dict(stage.done)}, {len(told.turns)} turns accepted, {len(told.ends)} ends seen"
            assert violations == [], story
            assert rested, story
            stage.store.inspect()
            assert missing(stage) == [], story
            sys.stderr.write(story + "\n")
        finally:
            await listening.close()


async def until_heard(heard: list[Event], store: TurnStore) -> None:
    """The recording lags behind the outbox by a moment."""
    for _ in range(50):
        unheard = await check(store, [PROJECT], heard=heard)
        if not any(violation.promise == "finally_every_end_is_announced" for violation in unheard):
            return
        await asyncio.sleep(0.1)


@pytest.mark.timeout(300 + 3 * LOAD_SECONDS)
async def test_a_single_process_killed_again_and_again_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    """SQLite in one process: acknowledged means on disk."""
    seed = int(os.environ.get("HOMEOSTAT_TEST_FAULT_SEED", process_seed()))
    chance = Chance(seed)
    store = SqliteFile(tmp_path)
    loop = asyncio.get_running_loop()
    accepted, life, began = 0, 0, loop.time()
    while life < max(3, LOAD_SECONDS) or (accepted < 20 and loop.time() < began + PATIENCE_SECONDS):
        life += 1
        party = Party("both", store.url, None, tmp_path, seed + life)
        try:
            await party.ready()
            await asyncio.sleep(chance.uniform(0.2, 1.0))
        finally:
            party.kill()
        store.inspect()
        told = acknowledged(tmp_path)
        assert len(told.turns) >= accepted
        accepted = len(told.turns)
        async with kernel_on(store.url, None, LEASE_SECONDS) as kernel:
            violations = await check(
                kernel.store,
                [PROJECT],
                heard=heard_events(tmp_path),
                acknowledged=told,
                effects=effects(tmp_path),
                at_rest=False,
            )
        assert violations == [], f"seed {seed}, life {life}"

    last = Party("worker", store.url, None, tmp_path, seed)
    try:
        await last.ready()
        async with kernel_on(store.url, None, LEASE_SECONDS) as kernel:
            assert await rest(kernel.store), f"seed {seed}"
            told = acknowledged(tmp_path)
            assert accepted >= 20, f"seed {seed}"
            violations = await check(kernel.store, [PROJECT], acknowledged=told, effects=effects(tmp_path))
            assert violations == [], f"seed {seed}"
    finally:
        await last.leave()
