"""What is wrong with a document is said in words that name the fix."""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
import pytest

from homeostat.core.codec import read_as
from homeostat.core.errors import InvalidRequest, MalformedPayload


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    colour: Colour | None = None


class Paper(msgspec.Struct, forbid_unknown_fields=True):
    number: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1
    share: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    word: Annotated[str, msgspec.Meta(min_length=1, max_length=3)] = "a"
    site: Annotated[str, msgspec.Meta(pattern=r"^https?://")] = "http://a"
    size: Literal["small", "large", "huge"] = "small"
    parts: Annotated[tuple[Inner, ...], msgspec.Meta(max_length=2)] = ()
    names: dict[Annotated[str, msgspec.Meta(max_length=2)], Colour] = {}
    both: tuple[int, int] = (1, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "body is not valid: it is empty, ends in the middle of its JSON, or has half a surrogate pair in a text."),
        ("nonsense", "body is not valid: it is not JSON: invalid character (byte 4)."),
        ("[]", "body is not valid: it must be an object, not a list."),
        ('{"number": 0}', "number is not valid: it must be a whole number, 1 or more."),
        ('{"number": 9}', "number is not valid: it must be a whole number, 5 or less."),
        ('{"number": "x"}', "number is not valid: it must be a whole number, not a string."),
        ('{"number": 1.5}', "number is not valid: it must be a whole number, not a fraction."),
        ('{"number": 1e400}', "number is not valid: it is too large or too small a number."),
        ('{"share": 0}', "share is not valid: it must be a number, more than 0.0."),
        ('{"word": ""}', "word is not valid: it must have at least 1 character."),
        ('{"word": "abcd"}', "word is not valid: it must have at most 3 characters."),
        ('{"site": "ftp://x"}', "site is not valid: it must begin with http:// or https://."),
        ('{"size": "tiny"}', "size is not valid: it must be huge, large or small, not 'tiny'."),
        ('{"parts": [{}, {}, {}]}', "parts is not valid: it must have at most 2 items."),
        ('{"parts": [{"colour": "green"}]}', "parts[0].colour is not valid: it must be red or blue, not 'green'."),
        ('{"parts": [{"color": 1}]}', "parts[0].color is not valid: there is no such field; there are colour."),
        ('{"names": {"a": "green"}}', "names[...] is not valid: it must be red or blue, not 'green'."),
        ('{"names": {"abc": "red"}}', "names is not valid: it must have at most 2 characters."),
        ('{"both": [1]}', "both is not valid: it must have 2 items."),
    ],
)
def test_a_problem_is_told_with_what_to_send_instead(text: str, said: str) -> None:
    with pytest.raises(MalformedPayload) as raised:
        read_as(Paper, text)
    assert raised.value.message == said


def test_a_fact_that_ends_its_own_sentence_is_not_ended_twice() -> None:
    assert InvalidRequest(problem="it does not fit.").message.endswith("it does not fit.")
    assert not InvalidRequest(problem="it does not fit.").message.endswith("..")
