"""What an agent's model call makes of answers: the same however they were cut, and no surprise whatever they hold."""

import json

import pytest

from homeostat.agent.errors import ModelUnavailable
from homeostat.agent.models import Models, read_completion
from homeostat.core.ports.upstream import Headers, UpstreamRequest

TOLD = (
    {"choices": [{"delta": {"content": "Good "}}]},
    {"choices": [{"delta": {"content": "day"}, "finish_reason": "stop"}]},
)


class Answer:
    status, complete = 200, True
    headers: Headers = []  # noqa: RUF012 - nobody adds to them

    def __init__(self, blocks: list[bytes]) -> None:
        self._blocks = [block for block in blocks if block]

    async def read(self) -> bytes:
        return self._blocks.pop(0) if self._blocks else b""

    def close(self) -> None: ...


class Provider:
    """Answers every attempt alike."""

    def __init__(self, *blocks: bytes) -> None:
        self._blocks = list(blocks)

    async def send(self, request: UpstreamRequest) -> Answer:
        del request
        return Answer(self._blocks)

    async def close(self) -> None: ...


async def no_rest(seconds: float) -> None:
    del seconds


async def ignore(text: str) -> None:
    del text


@pytest.mark.parametrize("line", ["\n", "\r\n"], ids=["LF", "CRLF"])
async def test_a_stream_says_the_same_wherever_it_is_cut(line: str) -> None:
    stream = "".join(f"data: {json.dumps(chunk)}{line}{line}" for chunk in TOLD).encode() + b"data: [DONE]"
    for cut in range(len(stream) + 1):
        models = Models(Provider(stream[:cut], stream[cut:]), sleep=no_rest)
        assert read_completion(await models.complete({}, [], ignore)).text == "Good day", f"cut at {cut}"


STRANGE = [
    {"choices": ["x"]},
    {"choices": 7},
    {"choices": [{"delta": {"content": 5}}]},
    {"choices": [{"delta": [], "message": 3}]},
    {"choices": [{"delta": {"tool_calls": [{"index": "x", "function": 1}, 7]}}]},
    {"usage": 3, "model": [], "choices": {"a": 1}},
    [],
    None,
]


@pytest.mark.parametrize("chunk", STRANGE, ids=repr)
async def test_an_answer_of_another_shape_is_no_answer(chunk: object) -> None:
    body = json.dumps(chunk).encode()
    with pytest.raises(ModelUnavailable):
        await Models(Provider(b"data: " + body + b"\n\n"), sleep=no_rest).complete({}, [], ignore)
    try:
        whole = await Models(Provider(body), sleep=no_rest).complete({}, [])
    except ModelUnavailable:
        return
    assert read_completion(whole).text == ""
