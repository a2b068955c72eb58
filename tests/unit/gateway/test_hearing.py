"""Who says what in a request, on each API, and what becomes of it."""

import json
from typing import Any

import pytest

from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.limits import HEARING_BYTES_MAX
from homeostat.core.records.call import Api, CallId
from homeostat.core.records.conversation import Conversation, Speaker, Utterance
from homeostat.core.records.event import Event, subject
from homeostat.core.records.vitals import Hearsay
from homeostat.gateway.dialects.shapes import Ask
from homeostat.gateway.hearing import Hearing, conversation_of
from homeostat.testing.gateways import booth

WEATHER = '{"city": "Oslo"}'
EXPECTED = (
    Utterance(Speaker.MASTER, "be brief"),
    Utterance(Speaker.MASTER, "what is the weather?"),
    Utterance(Speaker.CALL, WEATHER, "get_weather"),
    Utterance(Speaker.TOOL, "21 degrees\nsunny"),
)
CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "what is the weather?"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": WEATHER}}],
        },
        {
            "role": "tool",
            "tool_call_id": "1",
            "content": [{"type": "text", "text": "21 degrees"}, {"type": "text", "text": "sunny"}],
        },
    ]
}
RESPONSES: dict[str, Any] = {
    "input": [
        {"role": "developer", "content": "be brief"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "what is the weather?"}]},
        {"type": "function_call", "call_id": "1", "name": "get_weather", "arguments": WEATHER},
        {"type": "function_call_output", "call_id": "1", "output": "21 degrees\nsunny"},
    ]
}
ANTHROPIC: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "what is the weather?"}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "1", "name": "get_weather", "input": {"city": "Oslo"}}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "1",
                    "content": [{"type": "text", "text": "21 degrees"}, {"type": "text", "text": "sunny"}],
                }
            ],
        },
    ]
}


@pytest.mark.parametrize(
    ("api", "body"),
    [(Api.OPENAI_CHAT, CHAT), (Api.OPENAI_RESPONSES, RESPONSES), (Api.ANTHROPIC_MESSAGES, ANTHROPIC)],
)
def test_every_api_tells_whom_an_agent_serves_from_what_tools_say(api: Api, body: dict[str, Any]) -> None:
    assert conversation_of(api, json.dumps(body).encode()) == EXPECTED


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"messages": 3, "input": 3}', b'{"messages": [{"role": 1}]}'])
@pytest.mark.parametrize("api", list(Api))
def test_what_cannot_be_read_says_nothing(api: Api, body: bytes) -> None:
    assert conversation_of(api, body) == ()


class Deaf:
    """Hears one word."""

    def listen(self, conversation: Conversation) -> Hearsay | None:
        heard = any(said.speaker is Speaker.TOOL and "sunny" in said.text for said in conversation)
        return Hearsay(orders=3.0, cues=("override",)) if heard else None


async def test_never_more_is_kept_than_fits() -> None:
    hearing = Hearing(Deaf())
    hearing.keep(CallId("told"), Ask(Api.OPENAI_CHAT, json.dumps(CHAT).encode()))
    hearing.keep(CallId("huge"), Ask(Api.OPENAI_CHAT, b'"tool"' + b" " * HEARING_BYTES_MAX))
    assert hearing.unheard == 1
    found = await hearing.findings([CallId("told"), CallId("huge")])
    assert found == {"told": Hearsay(orders=3.0, cues=("override",))}
    assert await hearing.findings([CallId("told")]) == {}, "it was let go"


async def test_vitals_carry_what_was_heard_and_none_of_the_words() -> None:
    announced: list[Event] = []

    async def hear(event: Event) -> None:
        announced.append(event)

    async with booth(listener=Deaf()) as one:
        await one.bus.subscribe(subject(DEFAULT_PROJECT, "evt", "agent", "*", "vitals"), hear)
        await one.chat(**CHAT)
        await one.chat("It is sunny")
        await one.gateway.clerk.flush()
    told, plain = sorted((json.loads(event.payload) for event in announced), key=lambda vital: vital["sample_id"])
    assert told["hearsay"] == {"orders": 3.0, "cues": ["override"], "borrowed": False}
    assert plain["hearsay"] is None
    assert "sunny" not in announced[0].payload
