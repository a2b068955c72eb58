"""The seeded loop: virtual time, an order that follows from the seed, and domains that stop and vanish."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from homeostat.core.ids import Chance
from homeostat.testing.loop import Domain, SeededLoop, Spinning, Standstill


def run(seed: int, body: Callable[[SeededLoop], Coroutine[object, object, None]]) -> SeededLoop:
    loop = SeededLoop(Chance(seed))
    try:
        loop.run_until_complete(body(loop))
    finally:
        loop.close()
    return loop


def test_time_passes_only_when_nothing_else_can_happen() -> None:
    async def body(loop: SeededLoop) -> None:
        await asyncio.sleep(3600)
        assert loop.time() == 3600
        async with asyncio.timeout(10):
            await asyncio.sleep(9.5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.sleep(11)
        assert loop.time() == 3619.5

    run(1, body)


def order(seed: int) -> str:
    seen: list[str] = []

    async def mark(name: str) -> None:
        await asyncio.sleep(0)
        seen.append(name)

    async def body(_: SeededLoop) -> None:
        await asyncio.gather(*(mark(name) for name in "abcdefgh"))

    run(seed, body)
    return "".join(seen)


def test_the_order_follows_from_the_seed() -> None:
    assert order(1) == order(1)
    assert len({order(seed) for seed in range(20)}) > 15


def test_waiting_for_nothing_is_an_error_and_so_is_spinning() -> None:
    async def forever(loop: SeededLoop) -> None:
        await loop.create_future()

    async def spin(loop: SeededLoop) -> None:
        def again() -> None:
            loop.call_soon(again)

        again()
        await asyncio.sleep(1)

    with pytest.raises(Standstill):
        run(1, forever)
    with pytest.raises(Spinning):
        run(1, spin)


def test_what_a_callback_raises_is_reported() -> None:
    caught: list[Exception] = []

    async def body(loop: SeededLoop) -> None:
        loop.on_error = caught.append
        loop.call_later(1, int, "not a number")
        await asyncio.sleep(2)

    run(1, body)
    assert [type(error) for error in caught] == [ValueError]


def test_a_stalled_domain_stands_still_while_the_world_goes_on() -> None:
    ticks: list[float] = []

    async def tick(loop: SeededLoop) -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(loop.time())

    async def body(loop: SeededLoop) -> None:
        domain = Domain("p")
        loop.start(domain, tick(loop))
        await asyncio.sleep(2.5)
        loop.stall(domain)
        await asyncio.sleep(10)
        assert ticks == [1, 2]
        loop.resume(domain)
        await asyncio.sleep(1.2)
        assert ticks == [1, 2, 12.5, 13.5]

    run(1, body)


def test_a_killed_domain_runs_nothing_ever_again_not_even_a_finally() -> None:
    ran: list[str] = []

    async def careful(loop: SeededLoop) -> None:
        try:
            ran.append("began")
            await asyncio.sleep(1)
            ran.append("went on")
        finally:
            if not loop.is_closed():
                ran.append(f"cleaned up at {loop.time()}")

    async def body(loop: SeededLoop) -> None:
        domain = Domain("p")
        loop.start(domain, careful(loop))
        await asyncio.sleep(0.5)
        loop.kill(domain)
        await asyncio.sleep(10)
        assert ran == ["began"]

    run(1, body)


def test_a_future_answered_from_outside_wakes_its_domain_only_if_that_lives() -> None:
    woken: list[str] = []

    async def wait(name: str, future: "asyncio.Future[None]") -> None:
        await future
        woken.append(name)

    async def body(loop: SeededLoop) -> None:
        domains = {name: Domain(name) for name in ("alive", "stalled", "dead")}
        futures = {name: loop.create_future() for name in domains}
        for name, domain in domains.items():
            loop.start(domain, wait(name, futures[name]))
        await asyncio.sleep(0.1)
        loop.stall(domains["stalled"])
        loop.kill(domains["dead"])
        for future in futures.values():
            future.set_result(None)
        await asyncio.sleep(1)
        assert woken == ["alive"]
        loop.resume(domains["stalled"])
        await asyncio.sleep(1)
        assert woken == ["alive", "stalled"]

    run(1, body)
