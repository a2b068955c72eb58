"""Entries of a ledger: what is hashed, and what never gets that far."""

import hashlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeostat.core.canonical import canonical_of, number
from homeostat.core.clock import Millis
from homeostat.core.codec import to_json
from homeostat.core.errors import MalformedPayload
from homeostat.core.ids import ProjectId, RunId
from homeostat.core.records import provenance
from homeostat.core.records.provenance import START, Block, Chain, EntryKind, Tip, blocks_of, entry_of, next_entry
from homeostat.core.redaction import REDACTED, redact, redact_json, suspicious, unlooked

PROJECT, RUN, AT = ProjectId("default"), RunId("run_1"), Millis(1_700_000_000_000)

SAID = (
    "",
    "task-7",
    '{"password":',
    '"hunter2"}',
    '{"token":"x"}',
    r"{\"api_key\":1}",
    "sk-" + "a1" * 9,
    "a\\n",
    "-" * 5,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("bits", "text"),
    [  # from appendix B of RFC 8785
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_are_written_as_the_rfc_writes_them(bits: str, text: str) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert number(value) == text


def test_an_object_is_written_as_the_rfc_writes_it() -> None:
    given_text = r"""{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}"""
    assert canonical_of(given_text) == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_names_are_sorted_by_utf_16_units() -> None:
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    kept = json.loads(canonical_of(json.dumps({"deep": [dict.fromkeys(names, 0)]})))
    assert list(kept["deep"][0]) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@given(JSON)
def test_canonical_text_says_the_same_and_is_a_fixed_point(value: Any) -> None:
    text = canonical_of(to_json(value))
    assert json.loads(text, parse_int=float) == json.loads(to_json(value), parse_int=float)
    assert canonical_of(text) == text


@given(JSON, JSON)
def test_unequal_payloads_have_unequal_hashes(one: Any, other: Any) -> None:
    same = json.loads(to_json(one)) == json.loads(to_json(other))
    first, second = (_entry({"nested": {"deeper": [value]}}).hash for value in (one, other))
    assert (first == second) == (same and canonical_of(to_json(one)) == canonical_of(to_json(other)))


def test_ten_and_a_million_deep_inside_do_not_hash_the_same() -> None:
    assert _entry({"a": {"b": {"cost": 10}}}).hash != _entry({"a": {"b": {"cost": 1_000_000}}}).hash
    assert _entry({"n": 2**53}).hash != _entry({"n": 2**53 + 1}).hash


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(MalformedPayload):
        canonical_of("1e400")


def test_the_hash_is_sha256_of_one_canonical_object() -> None:
    entry = next_entry(
        Tip(7, "ab" * 32),
        project=PROJECT,
        run_id=RUN,
        kind=EntryKind.RUN_MOVED,
        at_ms=AT,
        payload={"to": "paused", "b": 1.0},
    )
    whole = {
        "seq": 7, "kind": "run.moved", "payload": {"b": 1, "to": "paused"}, "previous": "ab" * 32,
        "project": "default", "run_id": "run_1", "at_ms": AT,
    }  # fmt: skip
    assert entry.hash == hashlib.sha256(b"\0" + canonical_of(json.dumps(whole)).encode()).hexdigest()


def test_a_chain_goes_on_where_it_ended() -> None:
    chain = Chain(PROJECT, RUN)
    assert chain.tip == START
    chain.add(EntryKind.RUN_CREATED, {"goal": "x"}, at_ms=AT)
    chain.add(EntryKind.RUN_MOVED, {"to": "planned"}, at_ms=AT)
    first, second = chain.entries
    assert [first.seq, second.seq] == [1, 2]
    assert chain.tip == second.tip == Tip(3, second.hash)
    again = Chain(PROJECT, RUN, first.tip)
    again.add(EntryKind.RUN_MOVED, {"to": "planned"}, at_ms=AT)
    assert again.entries == [second]
    moved = EntryKind.RUN_MOVED
    assert second == next_entry(first.tip, project=PROJECT, run_id=RUN, kind=moved, at_ms=AT, payload={"to": "planned"})


def test_lines_share_rows_of_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "LEDGER_BLOCK_CHARS", 10)
    assert blocks_of(5, ["a"]) == [Block(5, 5, "a")]
    assert blocks_of(5, ["aaaa", "bbbb", "c" * 30, "dd", "ee"]) == [
        Block(5, 6, "aaaa\nbbbb"),
        Block(7, 7, "c" * 30),
        Block(8, 9, "dd\nee"),
    ]


def test_a_line_that_was_made_illegible_is_shown_as_it_is() -> None:
    entry = entry_of("{no JSON", PROJECT, RUN, 3)
    assert (entry.seq, entry.kind) == (3, "unreadable")
    assert json.loads(entry.payload) == {"line": "{no JSON"}


SECRETS = [
    "hs_" + "0a" * 24,
    "sk-proj-abcdefghijklmnop1234",
    *(f"gh{kind}_" + "A1" * 18 for kind in "pousr"),
    "github_pat_" + "a1" * 12,
    "glpat-" + "a1" * 10,
    "xoxb-" + "12345-" * 3,
    "AKIA" + "Z" * 16,
    "ASIA" + "Z" * 16,
    "AIza" + "z_-" * 11 + "zz",
    "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_known_by_their_looks(secret: str) -> None:
    entry = _entry({"args": {"text": f"use {secret} please"}, "list": [secret]})
    assert secret[4:20] not in entry.payload
    assert json.loads(entry.payload) == {"args": {"text": f"use {REDACTED} please"}, "list": [REDACTED]}


def test_secrets_are_known_by_their_names() -> None:
    told = {
        "api_key": "abc", "X-Api-Key": "abc", "Authorization": "Basic abc", "db_password": "abc", "token": "abc",
        "credentials": {"user": "a"}, "tokens": 3, "max_tokens": 5, "token_count": 4, "password": "", "secret": None,
        "url": "postgres://user:hunter2@db/x",
    }  # fmt: skip
    kept = redact(told)
    assert [name for name in told if kept[name] == REDACTED] == [
        "api_key", "X-Api-Key", "Authorization", "db_password", "token", "credentials",
    ]  # fmt: skip
    assert kept["url"] == f"postgres://{REDACTED}@db/x"
    assert {name: kept[name] for name in ("tokens", "max_tokens", "password", "secret")} == {
        "tokens": 3, "max_tokens": 5, "password": "", "secret": None,
    }  # fmt: skip
    for name in ("api_key", "X-Api-Key", "Authorization", "db_password", "token"):
        assert redact_json(to_json({"deep": [{name: "abc"}]})) == to_json({"deep": [{name: REDACTED}]})


def test_a_text_without_secrets_is_left_alone_to_the_byte() -> None:
    text = '{"b": 1.0,  "a":[1e3], "usage":{"prompt_tokens":3}}'
    assert redact_json(text) is text  # type: ignore[arg-type]


def test_a_text_may_grow_by_losing_its_secrets() -> None:
    told = {"api_key": "a", "text": "\u6708" * 5_000, "more": [{"token": "b"}] * 500}
    kept = json.loads(redact_json(to_json(told)))
    assert kept["text"] == told["text"]
    assert kept["more"][-1] == {"token": REDACTED}


@given(JSON)
def test_redaction_is_done_once(value: Any) -> None:
    assert redact(redact(value)) == redact(value)


def _entry(payload: object) -> Any:
    return next_entry(START, project=PROJECT, run_id=RUN, kind=EntryKind.STEP, at_ms=AT, payload=payload)


def test_a_secret_behind_a_line_break_or_inside_of_a_json_text_is_found() -> None:
    key = "sk-" + "a1b2" * 6
    assert key not in redact_json(to_json({"text": f"mine is\n{key}"}))
    nested = to_json({"result_json": to_json({"password": "hunter2", "text": f"or\t{key}"})})
    kept = redact_json(nested)
    assert key not in kept
    assert "hunter2" not in kept
    assert redact_json(to_json({"result_json": 'no JSON: "password":'})) is not None


def test_a_plain_payload_is_written_as_any_other() -> None:
    payload = {"b": [1, None, True], "a": {"z": "ü", "y": "\U0001f600"}, "text_json": '{"password":"hunter2"}'}
    one, other = (
        next_entry(START, project=PROJECT, run_id=RUN, kind=EntryKind.STEP, at_ms=AT, payload=payload, plain=plain)
        for plain in (True, False)
    )
    assert one == other
    assert "hunter2" not in one.payload


@given(st.lists(st.sampled_from(SAID), max_size=6))
def test_a_look_at_many_texts_finds_what_a_look_at_each_would(texts: list[str]) -> None:
    assert any(suspicious(text) for text in unlooked(texts)) == any(suspicious(text) for text in texts)


def test_what_others_said_decides_whether_an_entry_is_looked_through() -> None:
    payload = {"name": "it", "result_json": '{"password":"hunter2"}'}
    made = next_entry(
        START,
        project=PROJECT,
        run_id=RUN,
        kind=EntryKind.STEP,
        at_ms=AT,
        payload=payload,
        plain=True,
        said='it\n{"password":"hunter2"}',
    )
    assert "hunter2" not in made.payload
