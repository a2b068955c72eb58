"""How many tokens a text has, closely enough to look real: words in pieces of a few letters, as tokenizers cut them."""

import re
from typing import Final

PER_MESSAGE: Final = 4  # what a message costs besides its text: role and separators
PER_REPLY: Final = 3  # the model's answer is primed with these

_PIECE = re.compile(r"\s?[^\W\d_]{1,6}|\s?\d{1,3}|\s?[^\w\s]|_+|\s+")


def pieces(text: str) -> list[str]:
    """Cut a text into what stands for tokens; joined again they are the text."""
    return _PIECE.findall(text)


def count(text: str) -> int:
    return sum(1 for _ in _PIECE.finditer(text))
