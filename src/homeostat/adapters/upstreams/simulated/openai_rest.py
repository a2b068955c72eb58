"""Embeddings and the list of models."""

import base64
import math
import struct
from typing import Any, Final, cast

from homeostat.adapters.upstreams.simulated import tokens
from homeostat.adapters.upstreams.simulated.answering import Answer, BadRequest, Desk, compact, model_of, whole_number
from homeostat.core.ids import chance

DIMENSIONS_DEFAULT: Final = 1536
DIMENSIONS_MAX: Final = 4096
INPUTS_MAX: Final = 2048

MODELS: Final = (
    ("gpt-4.1", "openai", 1744316542),
    ("gpt-4.1-mini", "openai", 1744318173),
    ("gpt-4o-mini", "openai", 1721172741),
    ("text-embedding-3-small", "openai", 1705948997),
    ("claude-sonnet-4-5-20250929", "anthropic", 1759104000),
    ("claude-haiku-4-5-20251001", "anthropic", 1759276800),
)


def embeddings(desk: Desk, body: dict[str, Any]) -> Answer:
    model = model_of(body)
    given = body.get("input")
    texts: list[Any] = [given] if isinstance(given, str) else cast("list[Any]", given or [])
    if not isinstance(texts, list) or not 0 < len(texts) <= INPUTS_MAX:  # pyright: ignore[reportUnnecessaryIsInstance] - as sent
        raise BadRequest(f"Invalid 'input': expected a string or 1 to {INPUTS_MAX} of them.", param="input")
    if all(isinstance(token, int) for token in texts):
        texts = [" ".join(str(token) for token in texts)]
    size = whole_number(body, "dimensions") or DIMENSIONS_DEFAULT
    if size > DIMENSIONS_MAX:
        raise BadRequest(f"Invalid 'dimensions': at most {DIMENSIONS_MAX}.", param="dimensions")
    packed = body.get("encoding_format") == "base64"
    vectors = [_vector(desk.seed, model, str(text), size) for text in texts]
    used = sum(tokens.count(str(text)) for text in texts)
    return Answer(
        compact(
            {
                "object": "list",
                "data": [
                    {"object": "embedding", "index": index, "embedding": _pack(vector) if packed else vector}
                    for index, vector in enumerate(vectors)
                ],
                "model": model,
                "usage": {"prompt_tokens": used, "total_tokens": used},
            }
        )
    )


def _vector(seed: int, model: str, text: str, size: int) -> list[float]:
    """A direction of length one; texts that share words lie near to each other."""
    sums = [0.0] * size
    for word in text.lower().split() or [""]:
        luck = chance(seed, model, word)
        for place in luck.choices(range(size), k=32):
            sums[place] += luck.uniform(-1.0, 1.0)
    length = math.sqrt(sum(value * value for value in sums)) or 1.0
    return [round(value / length, 8) for value in sums]


def _pack(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def models(desk: Desk, body: dict[str, Any]) -> Answer:
    del desk, body
    listed = [{"id": name, "object": "model", "created": created, "owned_by": by} for name, by, created in MODELS]
    return Answer(compact({"object": "list", "data": listed}))


def anthropic_models(desk: Desk, body: dict[str, Any]) -> Answer:
    del desk, body
    names = [name for name, by, _ in MODELS if by == "anthropic"]
    listed = [
        {"type": "model", "id": name, "display_name": name, "created_at": "2025-09-29T00:00:00Z"} for name in names
    ]
    return Answer(compact({"data": listed, "has_more": False, "first_id": names[0], "last_id": names[-1]}))
