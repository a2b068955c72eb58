"""One decides at a time; who takes long lends the word to those who wait, and has it again afterwards."""

import asyncio

import pytest

from homeostat.immune.deciding import Deciding


async def speak(deciding: Deciding, said: list[str], word: str) -> None:
    async with deciding:
        said.append(word)


async def test_nobody_speaks_while_another_decides_unless_it_gives_way() -> None:
    deciding, said = Deciding(), list[str]()
    async with deciding:
        await deciding.give_way()
        waiting = asyncio.create_task(speak(deciding, said, "kill"))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not said
        await deciding.give_way()
        assert said == ["kill"], "who waits goes first"
        later = asyncio.create_task(speak(deciding, said, "release"))
        for _ in range(5):
            await asyncio.sleep(0)
        assert said == ["kill"], "it was taken back"
    await asyncio.gather(waiting, later)
    assert said == ["kill", "release"]


async def test_it_is_lent_for_as_long_as_something_takes() -> None:
    deciding, said = Deciding(), list[str]()
    async with deciding:
        async with deciding.lent():
            await asyncio.gather(*(speak(deciding, said, word) for word in ("kill", "approve")))
        waiting = asyncio.create_task(speak(deciding, said, "late"))
        await asyncio.sleep(0)
        assert said == ["kill", "approve"]
    await waiting


async def test_who_does_not_hold_it_lends_nothing() -> None:
    deciding, said = Deciding(), list[str]()
    async with deciding:

        async def other() -> None:
            async with deciding.lent():
                said.append("lent")

        await asyncio.create_task(other())
        waiting = asyncio.create_task(speak(deciding, said, "kill"))
        await asyncio.sleep(0)
        assert said == ["lent"], "it was another's to lend"
    await waiting


async def test_who_is_cancelled_while_it_is_lent_leaves_it_to_whoever_has_it() -> None:
    deciding, said, has = Deciding(), list[str](), asyncio.Event()

    async def treat() -> None:
        async with deciding, deciding.lent():
            await asyncio.Event().wait()

    async def hold() -> None:
        async with deciding:
            has.set()
            await asyncio.Event().wait()

    treating = asyncio.create_task(treat())
    holding = asyncio.create_task(hold())
    await has.wait()
    treating.cancel()  # it waits to have it again
    await asyncio.sleep(0)
    treating.cancel()  # and is not let
    with pytest.raises(asyncio.CancelledError):
        await treating
    waiting = asyncio.create_task(speak(deciding, said, "kill"))
    await asyncio.sleep(0)
    assert not said, "somebody else has it"
    holding.cancel()
    await waiting
    assert said == ["kill"]
