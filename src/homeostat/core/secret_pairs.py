"""Secrets that stand in a text behind their names: in environment files, headers, command lines, addresses, code.

Texts also speak about passwords, and code passes them on. A value is taken for one where it is quoted, where it is
written as only machines write it (`NAME=value`, `--name=value`, `?name=value`), or where it looks like no word.
"""

import re
from typing import Final

from homeostat.core.secret_names import NAME, Judge, Says, says

_VALUE_CHARS_MAX: Final = 8192
_NAME_CHARS_MAX: Final = 80

_SCHEMES: Final = "basic|bearer|digest|token|apikey|negotiate"
_PAIR = re.compile(
    rf"{NAME}(?P<quote>\\{{0,64}}[\"'])?\]?[ \t]*(?P<sign>=>|:?=(?!=)|:)[ \t]*(?:"
    rf"(?P<mark>\\{{0,64}}[\"'`])(?P<quoted>[^\n]{{1,{_VALUE_CHARS_MAX}}}?)(?<!\\)(?P=mark)"
    rf"|(?P<cookies>(?<=cookie:[ ])[\w.-]+=[^\n\"'\\]{{1,{_VALUE_CHARS_MAX}}})"
    rf"|(?P<scheme>(?:{_SCHEMES})[ ]+)?(?P<plain>[^\s\\\"'`,;&|<>(){{}}\[\]]{{1,512}}+)(?P<call>[(\[]?))",
    re.IGNORECASE | re.ASCII,
)
# Whether there may be one at all: words that such names end in, and a sign behind them. It is found far more quickly.
_MAYBE = re.compile(
    r"(?:pass(?:word|wd|phrase|code)?|secret(?:[_\-. ]?string)?|credential|key|pwd|authorization|pin|code|token|cookie)"
    r"s?(?:[_-]?[0-9]{1,4})?\\{0,64}[\"']?\]?[ \t]*[:=]",
    re.IGNORECASE | re.ASCII,
)
_FIRST_WORDS_CHARS_MAX: Final = 16  # of a name of several words, before its last one
_NAME_BEFORE = re.compile(r"(?P<option>--|[?&])?(?P<start>[A-Za-z0-9_.$-]*)\Z")
_STAND_IN = re.compile(rf"[$<{{%*]|\.\.\.|\[redacted\]|(?:{_SCHEMES})\Z", re.IGNORECASE)
_COUNT = re.compile(r"-?[0-9]+(?:[.,/:%][0-9]*)*[km%]?", re.IGNORECASE)
_CODE = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]\w*)*", re.ASCII)
_CALLED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
_SIZE = re.compile(r"[0-9]+-?[A-Za-z]+|v?[0-9]+(?:\.[0-9]+)*", re.ASCII)
_HYPHENED = re.compile(r"[A-Za-z]+(?:-[A-Za-z0-9.]+)+", re.ASCII)
_ENDS_LINE = re.compile(r"[ \t]*(?:[.,;)]?(?:\s|\Z)|\\|[\"'])")
_OPTION = re.compile(
    rf"(?<=--)(?<!---)(?=[a-z0-9])(?P<start>[a-z0-9-]{{0,{_NAME_CHARS_MAX}}}?){NAME}[ ]+"
    r"(?P<plain>[^\s\\\"'`,;&|<>(){}\[\]-][^\s\\\"'`]{3,512}+)",
    re.IGNORECASE | re.ASCII,
)
_QUOTE: Final = r"\\{0,64}[\"']"
_BESIDE = re.compile(
    rf"(?:name|key)(?:{_QUOTE})?[ \t]*[:=][ \t]*(?:{_QUOTE})?(?P<start>[A-Za-z0-9_.$-]{{0,{_NAME_CHARS_MAX}}}?){NAME}"
    rf"(?:{_QUOTE})?(?:\s|\\+[nrt]|[,;]){{1,200}}(?:{_QUOTE})?value(?:{_QUOTE})?[ \t]*[:=][ \t]*(?:"
    rf"(?P<mark>{_QUOTE})(?P<quoted>[^\n]{{1,{_VALUE_CHARS_MAX}}}?)(?<!\\)(?P=mark)"
    r"|(?P<plain>[^\s\\\"'`,;{}\[\]]{1,512}+))",
    re.IGNORECASE | re.ASCII,
)


def hide_values(text: str, instead: str, judge: Judge = says) -> str:
    """The same text with the values replaced that a secret name stands beside: `- name: DB_PASSWORD` and on the next
    line `value: …`, as in manifests, or the same in one line of a log.
    """
    if "alue" not in text and "ALUE" not in text:
        return text
    return _BESIDE.sub(lambda found: _without_value(found, instead, judge), text)


def _without_value(found: re.Match[str], instead: str, judge: Judge) -> str:
    said = judge(found["start"] + found[0][found.end("start") - found.start() : found.end("many") - found.start()])
    where = "quoted" if found["quoted"] else "plain"
    value = found[where]
    if said is None or said is Says.COUNTED_MANY or _STAND_IN.match(value):
        return found[0]
    if said is not Says.SECRET and _COUNT.fullmatch(value):
        return found[0]
    return found[0][: found.start(where) - found.start()] + instead + found[0][found.end(where) - found.start() :]


def hide_pairs(text: str, instead: str, judge: Judge = says) -> str:
    """The same text with what stands behind a secret name replaced."""
    kept: list[str] = []
    done = at = 0
    while (found := _next_pair(text, at)) is not None:
        start, end = found.span("quoted") if found["quoted"] else _bare_span(found)
        if end > start and text[start:end] != instead and _taken_for_one(text, found, judge):
            kept += (text[done:start], instead)
            done = at = end
        else:
            at = max(found.end("sign"), found.start() + 1)  # what was taken for its value may be a name itself
    hidden = "".join((*kept, text[done:])) if kept else text
    return _OPTION.sub(lambda option: _without(option, instead, judge), hidden) if "--" in hidden else hidden


def _next_pair(text: str, at: int) -> re.Match[str] | None:
    for maybe in _MAYBE.finditer(text, at):
        for start in range(max(at, maybe.start() - _FIRST_WORDS_CHARS_MAX), maybe.start() + 1):
            if (found := _PAIR.match(text, start)) is not None:
                return found
    return None


def _bare_span(found: re.Match[str]) -> tuple[int, int]:
    if found["cookies"]:
        return found.span("cookies")
    return found.start("scheme") if found["scheme"] else found.start("plain"), found.end("plain")


def _taken_for_one(text: str, found: re.Match[str], judge: Judge) -> bool:
    before = _NAME_BEFORE.search(text, max(0, found.start() - _NAME_CHARS_MAX), found.start())
    assert before is not None
    name = before["start"] + text[found.start() : found.end("many")]
    said = judge(name)
    if said is None or said is Says.COUNTED_MANY:
        return False
    if found["cookies"]:
        return True
    value = found["quoted"] or found["plain"]
    if said is not Says.SECRET and _COUNT.fullmatch(value):
        return False
    if found["quoted"]:
        return bool(found["quote"]) or not (_STAND_IN.match(value) or (" " in value and not _has_digit(value)))
    if found["scheme"] and name.lower().endswith("authorization"):
        return not _STAND_IN.match(value)
    return _looks_secret(text, found, name, option=before["option"])


def _looks_secret(text: str, found: re.Match[str], name: str, *, option: str | None) -> bool:
    """Whether a value without quotes is one, and neither code nor a word of a sentence."""
    value, sign = found["plain"], found["sign"]
    if _STAND_IN.match(value) or value[0] in ":=/~!?#@" or "://" in value or name.lower().endswith("cookie"):
        return False
    if found["call"] and _CALLED.fullmatch(value):
        return False
    tight = sign == "=" and text[found.start("sign") - 1] not in " \t" and text[found.end("sign")] not in " \t"
    if tight and (option or name.isupper()):
        return True
    if found["call"] or _CODE.fullmatch(value):
        return False
    if value.isdigit():
        return len(value) > 3 and _ENDS_LINE.match(text, found.end("plain")) is not None
    if not _has_digit(value):
        return tight and not value.replace("-", "").isalpha()
    return tight or _mixed(value, last=_ENDS_LINE.match(text, found.end("plain")) is not None)


def _mixed(value: str, *, last: bool) -> bool:
    """Whether letters and digits are mixed as in no word; what is the last of its line is rarely part of a sentence."""
    if _SIZE.fullmatch(value) or not any(map(str.isalpha, value)):
        return False
    return len(value) > 3 if last else len(value) > 5 and not _HYPHENED.fullmatch(value)


def _has_digit(value: str) -> bool:
    return any(map(str.isdigit, value))


def _without(option: re.Match[str], instead: str, judge: Judge) -> str:
    """An option of a command line whose value is a word of its own."""
    said = judge(option[0][: option.end("many") - option.start()])
    value = option["plain"]
    if said not in (Says.SECRET, Says.COUNTED) or not _has_digit(value) or _STAND_IN.match(value):
        return option[0]
    if _COUNT.fullmatch(value) and said is Says.COUNTED:
        return option[0]
    return option[0][: option.start("plain") - option.start()] + instead
