"""Which texts are secrets by their looks: keys of well-known makes, bearer tokens, logins, private keys."""

import re
from typing import Final

_LOGIN: Final = r"[^\s/:@\"\\]*:[^\s/@\"\\]+"  # nobody has to have a name
_DIGIT: Final = r"(?=[A-Za-z0-9_-]{0,100}?[0-9])"  # words that are joined by hyphens have none
_NO_WORD: Final = r"(?=[A-Za-z~-]{20}|[A-Za-z~-]{0,19}(?:[0-9=]|[._+/]+[A-Za-z0-9~=-]))"
_MAKES: Final = (
    ("k_live_", r"[rs]k_live_[A-Za-z0-9]{16,}"),
    ("k_test_", r"[rs]k_test_[A-Za-z0-9]{16,}"),
    ("hf_", r"hf_[A-Za-z0-9]{30,}"),
    ("gsk_", r"gsk_[A-Za-z0-9]{32,}"),
    ("npm_", r"npm_[A-Za-z0-9]{36,}"),
    ("whsec_", r"whsec_[A-Za-z0-9+/]{20,}={0,2}"),
    ("pypi-AgE", r"pypi-AgE[A-Za-z0-9_-]{16,}"),
    ("xapp-", r"xapp-[0-9]-[A-Za-z0-9]+-[0-9]+-[A-Za-z0-9]{6,}"),
    ("SG.", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
)
"""Keys with the plain word they are found by."""

SECRET_VALUE: Final = re.compile(
    r"hs_[0-9a-f]{48}"
    rf"|\bsk-{_DIGIT}[A-Za-z0-9_-]{{16,}}"
    r"|\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}"
    r"|\bglpat-[A-Za-z0-9_-]{16,}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bAIza[A-Za-z0-9_-]{35}"
    rf"|\b(?:{'|'.join(key for _, key in _MAKES)})"
    r"|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"
    rf"|(?<=(?<![\w-])[Bb]earer ){_NO_WORD}[A-Za-z0-9._~+/=-]{{8,}}"
    rf"|(?<=://){_LOGIN}(?=@)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.*?-----END [A-Z ]*PRIVATE KEY-----|.*)",
    re.DOTALL,
)
_MARKS: Final = ("hs_", "github_pat_", "glpat-", "xox", ".eyJ", "earer ", "PRIVATE KEY-----")
# A pattern that begins with plain letters is found as quickly as a word. It stands for several words, or for those of
# everyday texts ("task-7", any address) that look like the beginning of a secret: the whole pattern takes far longer.
_MARK_PATTERNS: Final = (re.compile(r"gh[pousr]_"), re.compile(r"A(?:KIA|SIA|Iza)"))
_MAKE_MARKS: Final = tuple((word, re.compile(key)) for word, key in _MAKES)
_JOINED_MARK: Final = re.compile(r"_[A-Za-z0-9+/]{16}")  # most makes have it, and few texts
_OTHER_MARKS: Final = tuple(mark for mark in _MAKE_MARKS if "_" not in mark[0])
_KEY_MARK: Final = re.compile(rf"sk-(?<!\wsk-){_DIGIT}[A-Za-z0-9_-]{{16}}")
_LOGIN_MARK: Final = re.compile(rf"://{_LOGIN}@")


def looks_like_one(names: str, text: str) -> bool:
    """Whether a JSON text, or one that stands as a string inside of it, may hold a secret of such looks. `names` is the
    same without its backslashes.
    """
    for word, pattern in _MAKE_MARKS if "_" in names and _JOINED_MARK.search(names) else _OTHER_MARKS:
        if word in names and pattern.search(names):
            return True
    for mark in _MARKS:
        if mark in names:
            return SECRET_VALUE.search(_parted(text)) is not None
    for pattern in _MARK_PATTERNS:
        if pattern.search(names):
            return SECRET_VALUE.search(_parted(text)) is not None
    if "sk-" in names and _KEY_MARK.search(_parted(text)):
        return True
    return "@" in names and _LOGIN_MARK.search(_parted(text)) is not None


def _parted(text: str) -> str:
    """A JSON text in which an escaped line break is no letter of the word behind it."""
    return text.replace("\\n", " ").replace("\\r", " ").replace("\\t", " ") if "\\" in text else text
