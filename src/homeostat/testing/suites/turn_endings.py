"""How turns end, and how they are taken away: the second half of what a source of turns promises."""

import asyncio
from contextlib import suppress

from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import ResultFieldsMissing
from homeostat.core.records.card import CardDraft
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Fence
from homeostat.testing.suites.turn_world import DONE, PATIENCE_SECONDS, World, deliver, is_stale, one, soon

# --- ending --------------------------------------------------------------------------------------------------


async def a_delivery_ends_the_turn_and_brings_the_next(world: World) -> None:
    session = await world.worker()
    first, second = await world.send(payload=1), await world.send(payload=2)
    grant = await one(session)
    drafts = (CardDraft("note", Json('"by the way"')),)
    delivered = await session.deliver(
        grant, status=Outcome.SUCCESS, result=to_json({"answer": 42}), cards=drafts, claim_next=True
    )
    found = await world.kernel.deliverables.get(world.project, first)
    assert found is not None
    assert (found.card_id, found.status, found.value) == (delivered.card_id, Outcome.SUCCESS, {"answer": 42})
    assert delivered.next is not None
    assert delivered.next.turn.turn_id == second
    failed = await session.deliver(
        delivered.next,
        status=Outcome.FAILED,
        result=Json("null"),
        error=to_json({"code": "boom"}),
        claim_next=True,
    )
    assert failed.next is None
    ended = await world.kernel.deliverables.get(world.project, second)
    assert ended is not None
    assert (ended.status, from_json(ended.error or "null")) == (Outcome.FAILED, {"code": "boom"})


async def a_repeated_delivery_is_the_same_and_another_one_is_stale(world: World) -> None:
    session = await world.worker()
    await world.send()
    grant = await one(session)
    first = await session.deliver(grant, status=Outcome.SUCCESS, result=DONE)
    assert (await session.deliver(grant, status=Outcome.SUCCESS, result=DONE)).card_id == first.card_id
    assert await is_stale(session.deliver(grant, status=Outcome.SUCCESS, result=to_json("something else")))
    assert await is_stale(session.deliver(grant, status=Outcome.FAILED, result=DONE))


async def a_deliverable_must_cover_what_was_asked_for(world: World) -> None:
    session = await world.worker()
    await world.send(result_fields=to_json([{"name": "summary"}, {"name": "sources", "required": False}]))
    grant = await one(session)
    try:
        await deliver(session, grant, {"sources": []})
    except ResultFieldsMissing:
        pass
    else:
        raise AssertionError("a deliverable without its required field was accepted")
    await session.step(grant, "still running", DONE)
    await deliver(session, grant, {"summary": "short"})


async def a_stopped_turn_is_revoked_at_once(world: World) -> None:
    revoked: asyncio.Queue[Fence] = asyncio.Queue()
    session = await world.worker(on_revoke=revoked.put_nowait, silent=True)
    turn_id = await world.send()
    grant = await one(session)
    listening = asyncio.create_task(session.renew(PATIENCE_SECONDS))
    await asyncio.sleep(0.05)  # either order is right; this one is the harder
    await world.kernel.stop(world.project, turn_id, reason="enough", actor="test")
    fence = await soon(revoked.get())
    assert (fence.turn_id, fence.epoch, fence.worker_id) == (turn_id, grant.epoch, session.worker_id)
    await soon(listening)
    assert await is_stale(session.step(grant, "too late", DONE))
    assert await is_stale(deliver(session, grant))
    assert revoked.empty(), "a revocation is told once"


async def a_preempted_turn_is_revoked_and_granted_anew(world: World) -> None:
    revoked: asyncio.Queue[Fence] = asyncio.Queue()
    session = await world.worker(on_revoke=revoked.put_nowait, silent=True)
    turn_id = await world.send()
    grant = await one(session)
    await world.kernel.preempt(world.key())
    await soon(session.renew(PATIENCE_SECONDS))
    assert (await soon(revoked.get())).epoch == grant.epoch
    again = await one(session)
    assert again.turn.turn_id == turn_id
    assert again.epoch > grant.epoch
    assert await is_stale(session.release(grant))
    await deliver(session, again)


async def a_silent_worker_loses_its_turn_to_another(world: World) -> None:
    silent = await world.worker(silent=True)
    turn_id = await world.send()
    grant = await one(silent)
    await silent.step(grant, "half way", DONE)
    heir = await world.worker()
    again = await one(heir)
    assert (again.turn.turn_id, again.epoch) == (turn_id, grant.epoch + 1)
    assert "half way" in (await heir.hydrate(again)).steps
    assert await is_stale(deliver(silent, grant))
    await deliver(heir, again)


async def a_worker_that_was_silent_can_have_its_turn_back(world: World) -> None:
    revoked: asyncio.Queue[Fence] = asyncio.Queue()
    session = await world.worker(on_revoke=revoked.put_nowait, silent=True)
    turn_id = await world.send()
    grant = await one(session)
    again = await one(session)
    assert (again.turn.turn_id, again.epoch) == (turn_id, grant.epoch + 1)
    assert (await soon(revoked.get())).epoch == grant.epoch
    await deliver(session, again)


async def a_worker_that_renews_keeps_its_turn(world: World) -> None:
    session = await world.worker(silent=True)
    await world.send()
    grant = await one(session)
    until = world.kernel.clock.monotonic() + 2.5 * session.lease_seconds
    while world.kernel.clock.monotonic() < until:
        await session.renew(session.lease_seconds / 4)
    await session.step(grant, "still mine", DONE)
    await deliver(session, grant)


async def a_leaving_worker_hands_back_what_it_had_not_collected(world: World) -> None:
    leaving = await world.worker("ann", "bob")
    parked = asyncio.create_task(leaving.claim(2, PATIENCE_SECONDS))
    for _ in range(3):
        await asyncio.sleep(0)
    parked.cancel()
    with suppress(asyncio.CancelledError):
        for grant in await parked:
            await leaving.release(grant)
    sent = {await world.send("ann"), await world.send("bob")}
    await leaving.close()
    heir = await world.worker("ann", "bob")
    taken = {(await one(heir)).turn.turn_id, (await one(heir)).turn.turn_id}
    assert taken == sent
    views = [await world.kernel.store.turn(world.project, turn_id) for turn_id in taken]
    assert [view.losses for view in views if view is not None] == [0, 0], "what is handed back costs no attempt"


async def a_leaving_worker_hands_back_what_it_holds(world: World) -> None:
    leaving = await world.worker(silent=True)
    turn_id = await world.send()
    grant = await one(leaving)
    await leaving.step(grant, "half way", DONE)
    await leaving.close()
    heir = await world.worker()
    grants = await heir.claim(1, 0.0)
    assert len(grants) == 1, "what a worker holds that left is there at once"
    again = grants[0]
    assert (again.turn.turn_id, again.epoch) == (turn_id, grant.epoch + 1)
    assert "half way" in (await heir.hydrate(again)).steps
    view = await world.kernel.store.turn(world.project, turn_id)
    assert view is not None
    assert view.losses == 0, "what is handed back costs no attempt"
    assert await is_stale(deliver(leaving, grant))
    await deliver(heir, again)


async def a_released_turn_costs_no_attempt(world: World) -> None:
    session = await world.worker()
    turn_id = await world.send()
    for _ in range(8):
        grant = await one(session)
        await session.release(grant)
    view = await world.kernel.store.turn(world.project, turn_id)
    assert view is not None
    assert view.losses == 0
    await deliver(session, await one(session))
