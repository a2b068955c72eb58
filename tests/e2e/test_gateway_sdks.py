"""The real SDKs with nothing changed but base URL and key: answers, streams, tools, and how a no looks to them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from homeostat import SyncClient
from homeostat.testing.homeostat import HomeostatServer
from homeostat.testing.models import ModelServer

MODEL = "gpt-4o-mini"
CLAUDE = "claude-sonnet-4-6"
ASKED: Any = [{"role": "system", "content": "You are a clerk."}, {"role": "user", "content": "How is the weather?"}]
HELLO: Any = [{"role": "user", "content": "How is the weather?"}]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
CLAUDE_TOOLS: Any = [{"name": "weather", "input_schema": SCHEMA}]
RESPONSES_TOOLS: Any = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]


@dataclass
class Desk:
    """A server in front of a model, and an agent with its key."""

    url: str
    models: str
    agent_id: str
    key: str

    @property
    def openai(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/openai/v1", api_key=self.key)

    @property
    def anthropic(self) -> anthropic.Anthropic:
        return anthropic.Anthropic(base_url=f"{self.url}/anthropic", api_key=self.key)

    def calls(self) -> list[dict[str, Any]]:
        return httpx2.get(f"{self.url}/v1/calls", params={"agent_id": self.agent_id}).json()["calls"]

    def put(self, path: str, body: dict[str, Any], **query: Any) -> dict[str, Any]:
        answer = httpx2.put(f"{self.url}{path}", json=body, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer() as models:
        yield models


@pytest.fixture(scope="module")
def server(models: ModelServer) -> Iterator[HomeostatServer]:
    with HomeostatServer("--upstreams", f"openai={models.url},anthropic={models.url}", command="up") as server:
        yield server


@pytest.fixture
def desk(server: HomeostatServer, models: ModelServer) -> Desk:
    with SyncClient(server.url) as client:
        registered = client.register("sdk")
    return Desk(server.url, models.url, registered.agent_id, registered.api_key)


# --- OpenAI ------------------------------------------------------------------------------------------------------


def test_chat(desk: Desk) -> None:
    with desk.openai as client:
        answer = client.chat.completions.create(model=MODEL, messages=ASKED)
        assert answer.usage is not None
        assert answer.choices[0].message.content
    (call,) = desk.calls()
    assert (call["model"], call["outcome"], call["metered"], call["priced"]) == (
        MODEL,
        "answered",
        "reported",
        "listed",
    )
    assert (call["tokens_in"], call["tokens_out"]) == (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    assert call["cost_usd"] > 0


def test_chat_streams(desk: Desk) -> None:
    with desk.openai as client:
        chunks = list(client.chat.completions.create(model=MODEL, messages=ASKED, stream=True))
        assert all(chunk.usage is None and chunk.choices for chunk in chunks), "usage that nobody asked for is hidden"
        wanted = {"include_usage": True}
        with_usage = list(
            client.chat.completions.create(model=MODEL, messages=ASKED, stream=True, stream_options=wanted)  # pyright: ignore[reportArgumentType, reportCallIssue]
        )
    usage = with_usage[-1].usage
    assert usage is not None
    asked, unasked = desk.calls()
    for call in (asked, unasked):
        assert (call["streamed"], call["metered"]) == (True, "reported")
        assert call["tokens_out"] == usage.completion_tokens
        assert call["first_token_ms"] <= call["latency_ms"]


async def test_chat_with_tools_asynchronously(desk: Desk) -> None:
    async with openai.AsyncOpenAI(base_url=f"{desk.url}/openai/v1", api_key=desk.key) as client:
        answer = await client.chat.completions.create(model=MODEL, messages=HELLO, tools=TOOLS)
        stream: Any = await client.chat.completions.create(model=MODEL, messages=HELLO, tools=TOOLS, stream=True)
        pieces = [chunk async for chunk in stream]
    (tool,) = answer.choices[0].message.tool_calls or []
    assert tool.type == "function"
    assert tool.function.name == "weather"
    streamed = "".join(
        call.function.arguments or ""
        for chunk in pieces
        for call in chunk.choices[0].delta.tool_calls or ()
        if call.function
    )
    assert streamed == tool.function.arguments
    for call in desk.calls():
        assert call["tools_offered"] == ["weather"]
        assert [use["name"] for use in call["tool_calls"]] == ["weather"]
    assert len({call["tool_calls"][0]["arguments_hash"] for call in desk.calls()}) == 1


def test_responses(desk: Desk) -> None:
    with desk.openai as client:
        answer = client.responses.create(model=MODEL, input="How is the weather?", instructions="You are a clerk.")
        assert answer.output_text
        with client.responses.stream(model=MODEL, input="How is the weather?", tools=RESPONSES_TOOLS) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
    assert kinds[-1] == "response.completed"
    assert final.usage is not None
    streamed, whole = desk.calls()
    assert answer.usage is not None
    assert (whole["tokens_in"], whole["tokens_out"]) == (answer.usage.input_tokens, answer.usage.output_tokens)
    assert (streamed["tokens_in"], streamed["tokens_out"]) == (final.usage.input_tokens, final.usage.output_tokens)
    assert [use["name"] for use in streamed["tool_calls"]] == ["weather"]


def test_embeddings_and_models(desk: Desk) -> None:
    with desk.openai as client:
        vectors = client.embeddings.create(model="text-embedding-3-small", input=["a", "b"])
        assert len(vectors.data) == 2
        assert MODEL in {model.id for model in client.models.list()}
    assert {call["api"] for call in desk.calls()} == {"openai.embeddings", "openai.other"}


# --- Anthropic ---------------------------------------------------------------------------------------------------


def test_messages(desk: Desk) -> None:
    with desk.anthropic as client:
        answer = client.messages.create(model=CLAUDE, max_tokens=200, messages=HELLO, system="You are a clerk.")
        with client.messages.stream(model=CLAUDE, max_tokens=200, messages=HELLO) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
    assert text
    streamed, whole = desk.calls()
    assert (whole["tokens_in"], whole["tokens_out"]) == (answer.usage.input_tokens, answer.usage.output_tokens)
    assert (streamed["tokens_in"], streamed["tokens_out"]) == (final.usage.input_tokens, final.usage.output_tokens)
    assert whole["prompt_hash"] != streamed["prompt_hash"]


async def test_messages_with_tools_asynchronously(desk: Desk) -> None:
    async with anthropic.AsyncAnthropic(base_url=f"{desk.url}/anthropic", api_key=desk.key) as client:
        answer = await client.messages.create(model=CLAUDE, max_tokens=200, messages=HELLO, tools=CLAUDE_TOOLS)
        async with client.messages.stream(model=CLAUDE, max_tokens=200, messages=HELLO, tools=CLAUDE_TOOLS) as stream:
            final = await stream.get_final_message()
    for message in (answer, final):
        assert message.stop_reason == "tool_use"
        assert [block.name for block in message.content if block.type == "tool_use"] == ["weather"]
    assert [[use["name"] for use in call["tool_calls"]] for call in desk.calls()] == [["weather"], ["weather"]]


# --- how a no looks ----------------------------------------------------------------------------------------------


def test_a_blocked_agent_hears_the_words_once(desk: Desk) -> None:
    policy = desk.put("/v1/policies", {"action": "block", "agent_id": desk.agent_id, "reason": "it repeats itself"})
    with desk.openai as client, pytest.raises(openai.InternalServerError) as refused:
        client.chat.completions.create(model=MODEL, messages=ASKED)
    assert refused.value.status_code == 503
    assert refused.value.code == "agent_quarantined"
    assert "Agent is quarantined by immune system" in str(refused.value)
    with desk.anthropic as client, pytest.raises(anthropic.InternalServerError) as overloaded:
        client.messages.create(model=CLAUDE, max_tokens=20, messages=HELLO)
    assert "Agent is quarantined by immune system" in str(overloaded.value)
    calls = desk.calls()
    assert sum(call["repeats"] for call in calls) == 2, "neither SDK hammers"
    assert {call["policy_id"] for call in calls} == {policy["policy_id"]}
    assert httpx2.delete(f"{desk.url}/v1/policies/{policy['policy_id']}").status_code == 204
    with desk.openai as client:
        assert client.chat.completions.create(model=MODEL, messages=ASKED).choices


def test_policies_are_found_and_removed_by_whose_they_are(desk: Desk) -> None:
    mine = f"/v1/policies/{desk.agent_id}-"
    with httpx2.Client(base_url=desk.url) as http:
        for name, body in (
            ("block", {"action": "block", "origin": "immune", "reason": "it loops", "expires_in_seconds": 3600}),
            ("cap", {"action": "token_cap", "max_tokens": 9}),
            ("drain", {"action": "drain", "origin": "immune"}),
            ("gone", {"action": "drain", "expires_in_seconds": 0.001}),
        ):
            assert http.put(mine + name, json={**body, "agent_id": desk.agent_id}).status_code == 200
        whose = {"agent_id": desk.agent_id}
        listed = http.get("/v1/policies", params={**whose, "origin": "immune"}).json()["policies"]
        assert {(one["action"], one["origin"]) for one in listed} == {("block", "immune"), ("drain", "immune")}
        assert http.get(mine + "block").json()["expires_at"] > http.get(mine + "block").json()["created_at"]
        assert http.get(mine + "gone").status_code == 404
        assert http.delete("/v1/policies").status_code == 422
        assert http.delete("/v1/policies", params={**whose, "origin": "nobody"}).status_code == 422
        told = http.delete("/v1/policies", params={**whose, "origin": "immune", "dry_run": "true"}).json()
        went = http.delete("/v1/policies", params={**whose, "origin": "immune"}).json()
        assert told == {"dropped": went["dropped"], "dry_run": True}
        assert went["dropped"] == [f"{desk.agent_id}-block", f"{desk.agent_id}-drain"]
        assert http.delete("/v1/policies", params={**whose, "origin": "immune"}).json()["dropped"] == []
        assert http.delete("/v1/policies", params={"agent_id": desk.agent_id}).json()["dropped"][0].endswith("-cap")
    with desk.openai as client:
        assert client.chat.completions.create(model=MODEL, messages=ASKED).choices


def test_a_budget_refuses_with_a_code(desk: Desk) -> None:
    desk.put(f"/v1/budgets/agent/{desk.agent_id}", {"tokens": 10})
    with desk.openai as client, pytest.raises(openai.APIStatusError) as refused:
        client.chat.completions.create(model=MODEL, messages=ASKED, max_tokens=100)
    assert (refused.value.status_code, refused.value.body["code"]) == (402, "budget_exceeded")  # pyright: ignore[reportIndexIssue, reportOptionalSubscript]
    with desk.anthropic as client, pytest.raises(anthropic.APIStatusError, match="tokens budget of agent"):
        client.messages.create(model=CLAUDE, max_tokens=100, messages=HELLO)
    account = httpx2.get(f"{desk.url}/v1/budgets/agent/{desk.agent_id}").json()
    assert (account["tokens"], account["tokens_spent"], account["tokens_held"]) == (10, 0, 0)


def test_a_rate_limit_is_one_to_the_sdk(desk: Desk) -> None:
    desk.put(
        "/v1/policies/slow-" + desk.agent_id,
        {"action": "rate_limit", "agent_id": desk.agent_id, "requests_per_minute": 1},
    )
    with desk.openai.with_options(max_retries=0) as client:
        client.chat.completions.create(model=MODEL, messages=ASKED)
        with pytest.raises(openai.RateLimitError) as refused:
            client.chat.completions.create(model=MODEL, messages=ASKED)
    assert 0 < int(refused.value.response.headers["retry-after"]) <= 60


def test_a_policy_is_tried_on_the_past_first(desk: Desk) -> None:
    with desk.openai as client:
        client.chat.completions.create(model=MODEL, messages=ASKED)
    body = {"action": "model_filter", "agent_id": desk.agent_id, "deny": ["gpt-4*"]}
    tried = desk.put("/v1/policies", body, dry_run="true")
    assert (tried["seen"], tried["refused"]) == (1, 1)
    listed = httpx2.get(f"{desk.url}/v1/policies", params={"agent_id": desk.agent_id}).json()
    assert listed["policies"] == []


def test_unknown_and_departed_agents_are_refused(desk: Desk) -> None:
    with (
        openai.OpenAI(base_url=f"{desk.url}/openai/v1", api_key="hs_nobody") as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.chat.completions.create(model=MODEL, messages=ASKED)
    with desk.openai as client:
        assert client.chat.completions.create(model=MODEL, messages=ASKED).choices
        httpx2.post(f"{desk.url}/v1/agents/{desk.agent_id}/deregister").raise_for_status()
        with pytest.raises(openai.AuthenticationError):
            client.chat.completions.create(model=MODEL, messages=ASKED)


# --- to the byte -------------------------------------------------------------------------------------------------

BODIES: dict[str, dict[str, Any]] = {
    "/openai/v1/chat/completions": {
        "model": MODEL,
        "messages": ASKED,
        "tools": TOOLS,
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    "/openai/v1/responses": {"model": MODEL, "input": "How is the weather?", "stream": True},
    "/openai/v1/embeddings": {"model": "text-embedding-3-small", "input": "x"},
    "/anthropic/v1/messages": {"model": CLAUDE, "max_tokens": 300, "messages": HELLO, "stream": True},
}


@pytest.mark.parametrize("path", BODIES)
def test_what_arrives_is_what_was_sent_to_the_byte(desk: Desk, path: str) -> None:
    headers = {"authorization": f"Bearer {desk.key}", "anthropic-version": "2023-06-01"}
    direct = desk.models + "/" + path.split("/", 2)[2]
    while True:
        before = httpx2.post(direct, json=BODIES[path], headers=headers)
        through = httpx2.post(desk.url + path, json=BODIES[path], headers=headers)
        after = httpx2.post(direct, json=BODIES[path], headers=headers)
        if before.content == after.content:  # else a second went by in between, and answers say when they were made
            break
    assert through.content == before.content
    assert through.status_code == before.status_code
    ours = {"x-homeostat-call-id"}
    assert {name: value for name, value in through.headers.items() if name not in ours} == dict(before.headers)
