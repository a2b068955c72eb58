"""What was learned of healing over HTTP: vetoed and lifted, taken along and brought in, and what is refused."""

from copy import deepcopy
from typing import Any

import httpx2
import pytest

from homeostat.app.assemble import System
from homeostat.core.errors import StoreUnavailable
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.immune import Chart, Diagnosis, Lesson, RemedyAction
from homeostat.immune.ladder import Experience

VETO = {"diagnosis": "unknown", "action": "reset_agent", "reason": "it forgot a customer", "actor": "eve"}
PATH = "/v1/immune/memory"
DOCUMENT: dict[str, Any] = {
    "format": "homeostat-memory",
    "version": 1,
    "lessons": [
        {
            "agent_id": "ann",
            "diagnosis": "prompt_drift",
            "action": "rollback_prompt",
            "cured": 5,
            "failed": 1,
            "failed_at": "2026-01-31T12:00:00.250000Z",
        }
    ],
    "feedback": [
        {
            "feedback_id": "fbk_1",
            "agent_id": "ann",
            "actual_cause": "correct",
            "at": "2026-01-31T12:00:00Z",
            "diagnosis": "prompt_drift",
            "kinds": ["drift"],
        }
    ],
    "vetoes": [
        {"diagnosis": "unknown", "action": "reset_agent", "reason": "never", "at": "2026-01-31T12:00:00Z"},
        {
            "diagnosis": "unknown",
            "action": "reset_memory",
            "agent_id": "ann",
            "reason": "it has notes",
            "at": "2026-01-31T12:00:00Z",
        },
    ],
}


def _changed(part: str, **more: object) -> dict[str, Any]:
    document = deepcopy(DOCUMENT)
    document[part][0] |= more
    return document


@pytest.fixture(autouse=True)
async def ann(http: httpx2.AsyncClient) -> str:
    answer = await http.post("/v1/agents/register", json={"agent_type": "worker", "agent_id": "ann"})
    return answer.json()["api_key"]


async def take_in(http: httpx2.AsyncClient, document: dict[str, Any], query: str = "", **more: Any) -> httpx2.Response:
    body = {"reason": "from the other site", "actor": "eve", "memory": document}
    return await http.post(f"{PATH}/import{query}", json=body, **more)


async def test_a_remedy_is_vetoed_with_a_reason_and_allowed_again(
    http: httpx2.AsyncClient, system: System, ann: str
) -> None:
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        heard.append(event)

    await system.bus.subscribe(subject("*", Channel.EVT, "immune", "*", "memory"), hear)
    for reason in ("", "  "):
        assert (await http.post(f"{PATH}/veto", json=VETO | {"reason": reason})).status_code == 422
    agents = await http.post(f"{PATH}/veto", json=VETO, headers={"authorization": f"Bearer {ann}"})
    assert agents.status_code == 403, "agents do not choose their remedies"
    taken = await http.post(f"{PATH}/veto", json=VETO)
    assert taken.status_code == 200, taken.text
    assert taken.json()["left"] == ["reset_memory", "reduce_autonomy"]
    again = await http.post(f"{PATH}/veto", json=VETO | {"reason": "another", "actor": "bob"})
    assert again.json() == taken.json(), "the first word stands"
    own = await http.post(f"{PATH}/veto", json=VETO | {"action": "reset_memory", "agent_id": "ann"})
    assert own.json()["left"] == ["reduce_autonomy"]
    kept = (await http.get(PATH)).json()["vetoes"]
    assert [(one["action"], one["agent_id"], one["actor"]) for one in kept] == [
        ("reset_agent", None, "eve"),
        ("reset_memory", "ann", "eve"),
    ]
    assert (await http.post(f"{PATH}/veto", json=VETO | {"agent_id": "nobody"})).json()["code"] == "agent_unknown"
    off = await http.post(f"{PATH}/veto", json=VETO | {"action": "revoke_tools"})
    assert (off.status_code, off.json()["code"]) == (422, "invalid_request")
    lifted = await http.post(f"{PATH}/lift", json=VETO | {"reason": "mended"})
    assert lifted.json()["left"] == ["reset_memory", "reduce_autonomy", "reset_agent"]
    assert (await http.post(f"{PATH}/lift", json=VETO)).json()["code"] == "veto_unknown"
    acts = (await http.get("/v1/audit")).json()["items"]
    done = [(act["verb"], act["actor"], act["reason"]) for act in reversed(acts) if act["outcome"] == "done"]
    assert ("veto_remedy", "eve", "it forgot a customer") in done
    assert ("lift_veto", "eve", "mended") in done
    assert '"what":"vetoed"' in heard[0].payload
    assert '"reason":"mended"' in heard[-1].payload


async def test_what_was_only_tried_under_a_key_is_done_under_it(http: httpx2.AsyncClient) -> None:
    key = {"Idempotency-Key": "k1"}
    assert (await take_in(http, DOCUMENT, "?dry_run=true", headers=key)).json()["dry_run"]
    assert not (await take_in(http, DOCUMENT, headers=key)).json()["dry_run"], "it was answered as if it were repeated"
    assert (await http.get(PATH)).json()["vetoes"]


async def test_what_one_memory_holds_another_takes_in_once(http: httpx2.AsyncClient, system: System) -> None:
    rehearsed = (await take_in(http, DOCUMENT, "?dry_run=true")).json()
    assert rehearsed == {
        "dry_run": True,
        "lessons": 1,
        "feedback": 1,
        "vetoes": 2,
        "known": 0,
        "ladders": {"prompt_drift": ["rollback_prompt", "reset_memory", "reduce_autonomy", "reset_agent"]},
    }
    blank = (await http.get(PATH)).json()
    assert (blank["lessons"], blank["feedback"], blank["vetoes"]) == ([], [], [])
    assert (await take_in(http, DOCUMENT)).json() == rehearsed | {"dry_run": False}
    known = (await http.get(PATH)).json()
    assert known["lessons"] == [{"diagnosis": "prompt_drift", "action": "rollback_prompt", "cured": 5, "failed": 1}]
    assert known["ladders"]["prompt_drift"][0] == "rollback_prompt", "it is heeded at once"
    assert [one["kind"] for one in known["shifts"]] == ["drift"]
    first = (await http.get(f"{PATH}/export")).json()
    for document in (DOCUMENT, first):
        again = (await take_in(http, document)).json()
        assert (again["lessons"], again["feedback"], again["vetoes"], again["known"]) == (0, 0, 0, 4)
        assert again["ladders"] == {}
    reworded = (await take_in(http, _changed("vetoes", reason="not any more"))).json()
    assert (reworded["vetoes"], reworded["known"]) == (0, 4), "the first of two vetoes stands"
    second = (await http.get(f"{PATH}/export")).json()
    assert {**second, "exported_at": ""} == {**first, "exported_at": ""}
    assert first["lessons"] == DOCUMENT["lessons"]
    assert (await http.delete("/api/feedback/fbk_1")).json()["withdrawn"] is True
    assert (await take_in(http, DOCUMENT)).json()["feedback"] == 0, "what was taken back stays so"
    lesson = Lesson(
        project=DEFAULT_PROJECT,
        agent_id=AgentId("ann"),
        diagnosis=Diagnosis.PROMPT_DRIFT,
        action=RemedyAction.ROLLBACK_PROMPT,
        failed=4,
        failed_at_ms=system.clock.now_ms(),
    )
    assert await system.immune.store.save(Chart(lessons=(lesson,)))
    assert (await take_in(http, DOCUMENT)).json()["lessons"] == 0, "the larger of two counts stands"
    elsewhere = await http.get(f"{PATH}/export", headers={"x-homeostat-project": "other"})
    assert elsewhere.json()["lessons"] == []


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "another version": (DOCUMENT | {"version": 2}, "malformed_payload"),
    "another format": (DOCUMENT | {"format": "zip"}, "malformed_payload"),
    "something beside it": (DOCUMENT | {"baselines": []}, "malformed_payload"),
    "no such diagnosis": (_changed("lessons", diagnosis="flu"), "malformed_payload"),
    "no such remedy": (_changed("vetoes", action="pray"), "malformed_payload"),
    "fewer than none": (_changed("lessons", cured=-1), "malformed_payload"),
    "more than there can be": (_changed("lessons", cured=10**7), "malformed_payload"),
    "no count": (_changed("lessons", cured=1.5), "malformed_payload"),
    "no name": (_changed("lessons", agent_id="a\nb"), "malformed_payload"),
    "no reason": (_changed("vetoes", reason=" "), "malformed_payload"),
    "another ladder": (_changed("lessons", action="revoke_tools"), "invalid_request"),
    "a veto of another ladder": (_changed("vetoes", action="revoke_tools"), "invalid_request"),
    "nothing learned": (_changed("lessons", cured=0, failed=0, failed_at=None), "invalid_request"),
    "failed, and never": (_changed("lessons", failed_at=None), "invalid_request"),
    "tomorrow": (_changed("lessons", failed_at="2126-01-31T12:00:00Z"), "invalid_request"),
    "long ago": (_changed("vetoes", at="0001-01-01T00:00:00Z"), "invalid_request"),
    "no such evidence": (_changed("feedback", kinds=["omen"]), "invalid_request"),
    "too much": (DOCUMENT | {"vetoes": DOCUMENT["vetoes"] * 5_001}, "malformed_payload"),
}


@pytest.mark.parametrize("case", HOSTILE)
async def test_what_no_memory_can_hold_is_refused_and_nothing_is_changed(http: httpx2.AsyncClient, case: str) -> None:
    document, code = HOSTILE[case]
    answer = await take_in(http, document)
    assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
    known = (await http.get(PATH)).json()
    assert (known["lessons"], known["feedback"], known["vetoes"]) == ([], [], [])


async def test_feedback_that_another_project_gave_is_not_changed_from_here(http: httpx2.AsyncClient) -> None:
    assert (await take_in(http, DOCUMENT)).is_success
    body = {"memory": _changed("feedback", withdrawn=True), "reason": "x"}
    there = await http.post(f"{PATH}/import", json=body, headers={"x-homeostat-project": "other"})
    assert there.json()["feedback"] == 0, "all projects heed it already"
    (kept,) = (await http.get(PATH)).json()["feedback"]
    assert kept["withdrawn"] is False


async def test_what_another_project_here_has_learned_counts_once(http: httpx2.AsyncClient, system: System) -> None:
    assert (await take_in(http, DOCUMENT)).is_success
    exported = (await http.get(f"{PATH}/export")).json()
    other = {"x-homeostat-project": "other"}
    body = {"memory": exported, "reason": "the same agents work there"}
    there = (await http.post(f"{PATH}/import", json=body, headers=other)).json()
    assert (there["lessons"], there["vetoes"], there["ladders"]) == (0, 2, {}), "all ladders heed the lesson already"
    learned = Experience(await system.immune.store.lessons()).counts()
    assert learned == [(Diagnosis.PROMPT_DRIFT, RemedyAction.ROLLBACK_PROMPT, 5, 1)]
    for more in ({"project": "default", "lessons": _changed("lessons", cured=6)["lessons"]}, {"project": "elsewhere"}):
        body = {"memory": exported | more, "reason": "from the other site"}
        rehearsed = await http.post(f"{PATH}/import?dry_run=true", json=body, headers=other)
        assert rehearsed.json()["lessons"] == 1, "nobody here has learned that"


async def unavailable() -> list[object]:
    raise StoreUnavailable(problem="it is away")


async def test_what_was_learned_at_another_process_is_heard_of(
    http: httpx2.AsyncClient, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson = Lesson(
        project=DEFAULT_PROJECT,
        agent_id=AgentId("ann"),
        diagnosis=Diagnosis.PROMPT_DRIFT,
        action=RemedyAction.ROLLBACK_PROMPT,
        cured=5,
    )
    assert await system.immune.store.save(Chart(lessons=(lesson,)))
    await system.immune.tick()
    assert (await http.get(PATH)).json()["lessons"] == [], "nobody said so"
    await system.immune.ward.tell_of_memory(DEFAULT_PROJECT, {"what": "imported"})
    with monkeypatch.context() as away:
        away.setattr(system.immune.store, "feedback", unavailable)
        with pytest.raises(StoreUnavailable):
            await system.immune.tick()
    system.immune.healer.experience = Experience()
    await system.immune.tick()
    assert (await http.get(PATH)).json()["ladders"]["prompt_drift"][0] == "rollback_prompt"
