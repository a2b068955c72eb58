"""Which names say that what stands under or beside them is secret: those of members, variables, headers and options.

A name is judged by how it ends, in whatever spelling: `db_password`, `dbPassword`, `user.password`, `PGPASSWORD2`. Of
this field's everyday words some end alike: a number of tokens is no secret, nor is the token of a next page.
"""

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, cast

_HERE: Final = r"(?:(?<![A-Za-z0-9])|(?-i:(?<=[a-z0-9])(?=[A-Z])))"  # where a word begins, by a sign or by a hump
_JOIN: Final = r"[_\-. ]?"
KEYS: Final = ("api", "private", "secret", "access", "encryption", "signing", "master", "account", "ssh")
"""What has a key that is secret; others sort, join or name."""
PASSES: Final = (
    "db",
    "database",
    "user",
    "admin",
    "root",
    "smtp",
    "mail",
    "ftp",
    "mysql",
    "postgres",
    "redis",
    "proxy",
)
"""What has a `pass` that is a password; others pass tests and boards."""
PINS: Final = ("user", "card", "account", "bank", "security", "login", "unlock", "access")

HIDDEN: Final = (
    rf"pass(?:word|wd|phrase|code)|secret(?:{_JOIN}string)?|credential"
    rf"|(?:{'|'.join(KEYS)}){_JOIN}key"
    rf"|{_HERE}(?:pwd|authorization)"
    rf"|{_HERE}(?:{'|'.join(PASSES)}){_JOIN}pass"
    rf"|(?:(?<![A-Za-z0-9_.$-])|{_HERE}(?:{'|'.join(PINS)}){_JOIN})pin(?:{_JOIN}code)?"
)
COUNTED: Final = r"token|cookie"
NAME: Final = rf"(?:(?P<hidden>{HIDDEN})|{COUNTED})(?P<many>s?)(?:[_-]?[0-9]{{1,4}})?"
"""How a name ends that says secret."""

_NAME = re.compile(NAME + r"\Z", re.IGNORECASE | re.ASCII)
ORDINARY: Final = (
    *("next", "prev", "previous", "page", "continuation", "cursor", "first", "last", "per", "max", "min", "total"),
    *("bos", "eos", "pad", "unk", "sep", "cls", "mask", "stop", "start", "end", "special"),
    *("prompt", "completion", "input", "output", "cached", "reasoning"),
)
"""What has a token that is no secret."""
_ORDINARY = re.compile(rf"{_HERE}(?:{'|'.join(ORDINARY)}){_JOIN}tokens?\Z", re.IGNORECASE | re.ASCII)
_FOLDER = re.compile(r"[/~]|[A-Za-z]:[\\/]")
_CALLS = frozenset(
    {
        *("name", "key", "field", "header", "variable", "var", "env", "label", "id"),
        *("property", "attribute", "parameter", "param", "option", "setting"),
    }
)
_CALLED_CHARS_MAX: Final = 80
_CALLED_WORDS_MAX: Final = 3  # longer ones are sentences


class Says(Enum):
    """What a name says of its value."""

    SECRET = auto()
    COUNTED = auto()
    """A secret, unless it is a number: that tells how many there are."""
    SECRETS = auto()
    """Several secrets; a number tells how many there are."""
    COUNTED_MANY = auto()
    """Several secrets if they are texts; what has numbers in it tells how many there are, and text is text."""


def says(name: str) -> Says | None:
    """What a name says of its value; nothing, in most cases."""
    found = _NAME.search(name)
    if found is None:
        return None
    many = found["many"] and not name.lower().rstrip("0123456789_-").endswith("credentials")
    if found["hidden"]:
        return Says.SECRETS if many else Says.SECRET
    if _ORDINARY.search(name):
        return None
    return Says.COUNTED_MANY if many else Says.COUNTED


Judge = Callable[[str], Says | None]
"""Knows what a name says of its value."""


def is_value(name: str) -> bool:
    """Whether a member of this name is the value of what another member names, as in `{"name": …, "value": …}`."""
    lower = name.lower()
    return lower.endswith(("value", "values")) or lower == "val"


def called(members: dict[str, Any], judge: Judge = says) -> str | None:
    """What an object calls the value it has, as one of an environment or of headers does, if that says secret."""
    for name, item in members.items():
        lower = name.lower()
        if (lower in _CALLS or lower.endswith(("name", "key"))) and isinstance(item, str) and says_beside(item, judge):
            return item
    return None


def says_beside(name: str, judge: Judge = says) -> Says | None:
    """What a text says of the value beside it, if it is a name."""
    if len(name) > _CALLED_CHARS_MAX or name.count(" ") >= _CALLED_WORDS_MAX:
        return None
    return judge(name)


def is_secret(name: str, value: Any, said: Says) -> bool:
    """Whether a single value is secret that stands under such a name. That there is none is no secret."""
    if value is None or isinstance(value, bool) or value in ("", [], {}):
        return False
    if isinstance(value, int | float):
        return said is Says.SECRET
    if isinstance(value, str):
        working_directory = name.lower().endswith("pwd") and _FOLDER.match(value)
        return said is not Says.COUNTED_MANY and not working_directory
    return said in (Says.SECRET, Says.COUNTED)


def counts(value: Any) -> bool:
    """Whether a list or an object has numbers in it, as one that tells of usage has."""
    if isinstance(value, dict):
        items: Any = cast("dict[str, Any]", value).values()
    else:
        items = cast("list[Any]", value)
    return any(isinstance(item, int | float) and not isinstance(item, bool) for item in items)


def text_pieces(siblings: dict[str, Any]) -> bool:
    """Whether tokens stand beside their probabilities, and so are pieces of a model's text."""
    return any("logprob" in name for name in siblings)
