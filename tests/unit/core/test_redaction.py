"""What is taken for a secret, and what is not."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homeostat.core.codec import Json, to_json
from homeostat.core.redaction import (
    REDACTED,
    Rules,
    hide_keys,
    redact,
    redact_by,
    redact_json,
    redact_text,
    suspicious,
)
from homeostat.core.secret_pairs import hide_pairs, hide_values

SECRET_NAMES = (
    *(
        "dbPassword",
        "stripeApiKey",
        "userToken",
        "user.password",
        "pwd",
        "DB_PWD",
        "mysqlPwd",
        "PGPASSWORD",
        "password2",
    ),
    *(
        "clientSecret",
        "client.secret",
        "awsSecretAccessKey",
        "AWS_SECRET_ACCESS_KEY",
        "api_key_2",
        "API Key",
        "openaiApikey",
    ),
    *(
        "proxyAuthorization",
        "Set-Cookie",
        "sessionToken",
        "csrf_token",
        "SMTP_PASS",
        "dbPass",
        "pinCode",
        "card_pin",
        "pin",
    ),
    *("ssh_key", "account_key", "passcode", "privateKey", "SecretString", "secret_string", "dbSecretString"),
)
EVERYDAY_NAMES = (
    *(
        "tokens",
        "max_tokens",
        "tokens_in",
        "token_count",
        "prompt_tokens",
        "tokenizer",
        "token_type",
        "next_page_token",
    ),
    *(
        "nextPageToken",
        "nextToken",
        "eos_token",
        "stop_token",
        "key",
        "keys",
        "primary_key",
        "sort-key",
        "monkey",
        "public_key",
    ),
    *(
        "opinion",
        "spin",
        "pinned",
        "mapping",
        "gpio_pin",
        "pass",
        "first_pass",
        "bypass",
        "passed",
        "password_policy",
        "author",
    ),
    *(
        "secretary",
        "secret_name",
        "authorized",
        "authorization_url",
        "cookie_policy",
        "OLDPWD",
        "cwd",
        "preauthorization",
    ),
)
TEXTS_WITH_SECRETS = (
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=[redacted]"),
    ("A=1\nDB_PASSWORD=swordfish\nB=2", "A=1\nDB_PASSWORD=[redacted]\nB=2"),
    ('export API_KEY="abc def 1"', 'export API_KEY="[redacted]"'),
    ("X-Api-Key: abcd-1234-efgh\r\nHost: x", "X-Api-Key: [redacted]\r\nHost: x"),
    ("Authorization: Basic dXNlcjpwYXNz", "Authorization: [redacted]"),
    ("Cookie: sid=abcdef; theme=dark\nHost: x", "Cookie: [redacted]\nHost: x"),
    ("my password: hunter2, please log in", "my password: [redacted], please log in"),
    ("password = hunter2", "password = [redacted]"),
    ("password = 'hunter'", "password = '[redacted]'"),
    ("host=db password=hunter2 user=bob", "host=db password=[redacted] user=bob"),
    ("curl -u bob --token=abcdefgh x", "curl -u bob --token=[redacted] x"),
    ("login --password hunter2 --user bob", "login --password [redacted] --user bob"),
    ("https://x.org/a?access_token=abcdefg&b=2", "https://x.org/a?access_token=[redacted]&b=2"),
    (
        'they sent {"user": "bob", "password": "hunter2"} again',
        'they sent {"user": "bob", "password": "[redacted]"} again',
    ),
    ("{'api_key': 'abc', 'n': 1}", "{'api_key': '[redacted]', 'n': 1}"),
    ('os.environ["API_KEY"] = "abc"', 'os.environ["API_KEY"] = "[redacted]"'),
    ('log: {\\"password\\": \\"hunter2\\"} end', 'log: {\\"password\\": \\"[redacted]\\"} end'),
    ("PIN: 1234", "PIN: [redacted]"),
    ("security_pin_code=12345", "security_pin_code=[redacted]"),
    ("token: secret: abc123def", "token: secret: [redacted]"),
    (
        "env:\n- name: DB_PASSWORD\n  value: swordfish\n- name: A\n  value: b",
        "env:\n- name: DB_PASSWORD\n  value: [redacted]\n- name: A\n  value: b",
    ),
    ("redis://:hunter2x@host:6379/0", "redis://[redacted]@host:6379/0"),
    ("see postgres://bob:hunter2@db/x", "see postgres://[redacted]@db/x"),
    ("Authorization Bearer abcdefgh1, next", "Authorization Bearer [redacted], next"),
    ("a bearer abcdef.ghijkl. Next", "a bearer [redacted] Next"),
    ("(bearer abcdefghijklmnopqrst)", "(bearer [redacted])"),
    ("sk-proj-abcdefghijklm1 x", "[redacted] x"),
    ("{'ARN': 'x', 'SecretString': 'hunter'}", "{'ARN': 'x', 'SecretString': '[redacted]'}"),
    ("SecretString=hunter2", "SecretString=[redacted]"),
    ("sent {'Key': 'api_key', 'Value': 'a b'}!", "sent {'Key': 'api_key', 'Value': '[redacted]'}!"),
    (
        'log: {\\"name\\": \\"DB_PASSWORD\\", \\"value\\": \\"hunter\\"} end',
        'log: {\\"name\\": \\"DB_PASSWORD\\", \\"value\\": \\"[redacted]\\"} end',
    ),
)
MADE_KEYS = (
    *(f"{make}_{'4eC39HqLyjWDarjtT1zdp7dc'}" for make in ("sk_live", "sk_test", "rk_live", "rk_test")),
    "hf_" + "aBcDeFgHiJkLmNoPq" * 2,
    "gsk_" + "aBcD1eFgHiJkL" * 4,
    "npm_" + "aBcDeFgHi" * 4,
    "pypi-AgEIcHlwaS5vcmcCJ" + "a-_b1" * 12,
    "SG." + "aBcDeFgHiJkLmNoPqRs-_t" + "." + "aBcDeFgHiJkLmNoPqRs-_t" * 2,
    "xapp-1-A0123456789-1234567890123-" + "0a1b2c3d" * 8,
    "whsec_" + "aB+/" * 8,
    "whsec_" + "a1b2" * 7 + "abc=",
)
EVERYDAY_TEXTS = (
    "The password must have 8 characters. Choose a password: it should be long.",
    "Password: required. Secret: nobody knows. Token: the unit a model reads.",
    "token: 5 of 10",
    "Tokens: 1,234 in, 56 out; token = 7; max_tokens=512, MAX_TOKENS=512",
    "Your password: 8-character minimum, 2 digits",
    "reset your password: https://example.com/reset/12",
    "def login(password: str, token: str | None = None, api_key: Optional[str] = None) -> bool: ...",
    "self.token = token; password = getpass(); secret = os.environ['X']; api_key=settings.api_key",
    "client = Client(token=token, password=config.password, api_key=os.environ['API_KEY'])",
    "if password == expected: return Token::new(secret)",
    "password=$DB_PASSWORD token=${TOKEN} secret=<your-secret> --token {token} API_KEY=%s",
    "use --password to set one, or --token NAME",
    "https://example.com/list?page_token=abc123&next_token=xyz9",
    "550e8400-e29b-41d4-a716-446655440000 and da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "key: value, primary_key=id, sort_key = created_at2, keyboard: de2",
    "PWD=/srv/app1\nOLDPWD=/srv",
    "gpio pin: 13, pin = 4; in my opinion: 5 stars; shipping: 2 days1",
    "cookie: a small text that a site keeps. The authorization: see chapter 2.",
    "Basic understanding of bearer bonds is required",
    "the ring-bearer Frodo-Baggins, a pallbearer certificate1, a torch_bearer Olympia-2012",
    "bearer certificates. Bearer authentication... and bearer instruments/ or so; Bearer {token} and Bearer <token>",
    "sk-learn-pipeline-with-many-parts and a task-management-system-overview",
    "hf_hub_download, npm_config_registry_of_the_house, gsk_, SG.x.y, xapp-1-a, whsec_short, check_test_of, sk_live_",
    "pypi-package-publishing-workflow-of-the-house, https://x.org:8080/a@b, ://:, http://[::1]:80/a@b",
    "the SecretString: a type. def f(x: SecretString = SecretString.empty) and secret strings: none",
    "pass: 12, fail: 3, first_pass=ok1",
    '{"usage": {"prompt_tokens": 12, "total_tokens": 30}, "token_count": 4}',
    '{"b": 1.0,  "a":[1e3], "note": "password: required"}',
    "const password: string = props.password;",
    "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: db\n      key: password\n",
    "- name: DB_PASSWORD\n  value: $DB_PASSWORD\n- name: MAX_TOKENS\n  value: 512\n- name: TOKEN\n  value: 7",
)
ARGUMENTS_WITH_SECRETS: tuple[tuple[Any, Any], ...] = (
    (["--password", "hunter2"], ["--password", REDACTED]),
    (["login", "--token", "abc", "--user", "bob"], ["login", "--token", REDACTED, "--user", "bob"]),
    (["--db_password", "a b", "--api-key", "x"], ["--db_password", REDACTED, "--api-key", REDACTED]),
    (["--password", "--token", "x", "--pin", 1234], ["--password", "--token", REDACTED, "--pin", REDACTED]),
    (["x", "--proxy.secret", ["a", "b"]], ["x", "--proxy.secret", REDACTED]),
)
EVERYDAY_ARGUMENTS: tuple[Any, ...] = (
    ["--password", "--user", "bob"],
    ["--max-tokens", "512", "--tokens", "512", "--token", 7],
    ["--no-password", "db"],
    ["--password-file", "/run/it", "--tokenizer", "gpt2"],
    ["password", "token", "--"],
    ["--password"],
    ["---password", "a"],
    ["--password", None, True],
)
DESCRIPTIONS: tuple[Any, ...] = (
    {"properties": {"password": {"type": "string", "minLength": 8}}, "required": ["password"]},
    {"properties": {"token": {"type": ["string", "null"], "description": "what to log in with", "default": None}}},
    {"properties": {"secret": {"$ref": "#/$defs/Secret"}, "apiKeys": {"type": "array", "items": {"type": "string"}}}},
    {"parameters": {"pin": {"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "Pin"}}},
    {"name": "password", "value": {"type": "string"}},
    {"errors": {"password": ["is too short", "must have at least 8 characters, 2 of them digits"], "name": ["no"]}},
    {"fieldErrors": {"token": ["This field is required."]}},
)
NO_DESCRIPTIONS: tuple[tuple[Any, Any], ...] = (
    ({"password": {"type": "string", "value": "a"}}, {"password": REDACTED}),
    ({"password": {"type": "plain"}}, {"password": REDACTED}),
    ({"password": {"title": "a"}}, {"password": REDACTED}),
    (
        {"password": {"type": "string", "default": "hunter2", "enum": ["a", "b"]}},
        {"password": {"type": "string", "default": REDACTED, "enum": [REDACTED, REDACTED]}},
    ),
    (
        {"credentials": {"type": "object", "properties": {"pin": {"type": "integer", "const": 1234}}}},
        {"credentials": {"type": "object", "properties": {"pin": {"type": "integer", "const": REDACTED}}}},
    ),
    ({"errors": {"password": ["hunter2"]}}, {"errors": {"password": REDACTED}}),
    ({"errors": {"password": ["hunter2 is too short"]}}, {"errors": {"password": REDACTED}}),
    ({"errors": {"pin": ["1 2 3 4"]}}, {"errors": {"pin": REDACTED}}),
    ({"password": ["is too short"]}, {"password": REDACTED}),
)
PAIRS_WITH_SECRETS: tuple[tuple[Any, Any], ...] = (
    ({"name": "DB_PASSWORD", "value": "hunter"}, {"name": "DB_PASSWORD", "value": REDACTED}),
    ({"value": "hunter", "name": "DB_PASSWORD"}, {"value": REDACTED, "name": "DB_PASSWORD"}),
    ({"Key": "clientSecret", "Value": "hunter"}, {"Key": "clientSecret", "Value": REDACTED}),
    ({"header": "X-Api-Key", "value": "a", "on": True}, {"header": "X-Api-Key", "value": REDACTED, "on": True}),
    ({"name": "pin", "value": 1234}, {"name": "pin", "value": REDACTED}),
    ({"env_name": "TOKEN", "default_value": "a"}, {"env_name": "TOKEN", "default_value": REDACTED}),
    ({"name": "next_page_token5", "value": {"a": "b"}}, {"name": "next_page_token5", "value": REDACTED}),
    ({"label": "Your password", "value": "a"}, {"label": "Your password", "value": REDACTED}),
    ({"key": "db.password", "value": {"stringValue": "a"}}, {"key": "db.password", "value": REDACTED}),
    ({"key": "api_keys", "values": ["a", "b"]}, {"key": "api_keys", "values": [REDACTED, REDACTED]}),
    (
        [["Accept", "*"], ["Authorization", "Basic a"], ["Set-Cookie", "b"]],
        [["Accept", "*"], ["Authorization", REDACTED], ["Set-Cookie", REDACTED]],
    ),
    ([["token", ["a"]], ["n", 1]], [["token", REDACTED], ["n", 1]]),
)
EVERYDAY_PAIRS: tuple[Any, ...] = (
    {"name": "HOME", "value": "/srv"},
    {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
    {"name": "DB_PASSWORD", "value": ""},
    {"name": "max_tokens", "value": "512"},
    {"name": "token", "value": 512},
    {"name": "tokens", "values": {"in": 3, "out": 4}},
    {"type": "token", "value": "Hel"},
    {"name": "password", "description": "what to log in with", "required": True},
    {"key": "How do I get a new password", "value": "By asking for one"},
    {"required": ["user", "password"], "order": ["password", "user"]},
    [["the", 5], ["token", 7]],
    [["password", "user", "name"], ["a", "b", "c"]],
)


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_secret_name_is_known_in_every_spelling(name: str) -> None:
    assert redact_json(to_json({"a": [{name: "abc"}]})) == to_json({"a": [{name: REDACTED}]})


@pytest.mark.parametrize("name", EVERYDAY_NAMES)
def test_an_everyday_name_hides_nothing(name: str) -> None:
    told = {name: "abc", "n": {name: 5}}
    assert redact(told) is told


@pytest.mark.parametrize(("text", "kept"), TEXTS_WITH_SECRETS)
def test_a_secret_behind_its_name_is_taken_out_of_a_text(text: str, kept: str) -> None:
    assert redact_text(text) == kept
    assert redact_text(kept) == kept
    assert json.loads(redact_json(to_json({"text": text}))) == {"text": kept}
    assert json.loads(json.loads(redact_json(to_json({"text_json": to_json([text])})))["text_json"]) == [kept]


@pytest.mark.parametrize("text", EVERYDAY_TEXTS)
def test_an_everyday_text_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text
    told = to_json({"text": text, "list": [text]})
    assert redact_json(told) is told


@pytest.mark.parametrize(("told", "kept"), PAIRS_WITH_SECRETS)
def test_a_secret_is_known_by_the_name_beside_it(told: Any, kept: Any) -> None:
    assert redact(told) == kept
    assert json.loads(redact_json(to_json({"a": [told]}))) == {"a": [kept]}
    indented = json.dumps({"a": json.dumps([told], indent=2)}, indent=1)
    assert json.loads(json.loads(redact_json(Json(indented)))["a"]) == [kept]
    assert redact_by(told, Rules(beside=False)) == told, "it was not known before"


@pytest.mark.parametrize("told", EVERYDAY_PAIRS)
def test_an_everyday_pair_stays_as_it_is(told: Any) -> None:
    assert redact(told) is told


@pytest.mark.parametrize("key", MADE_KEYS)
def test_a_key_of_a_well_known_make_is_known_by_its_looks(key: str) -> None:
    for text in (key, f"it is {key}, they say", f"A={key}\n"):
        kept = text.replace(key, REDACTED)
        assert redact_text(text) == kept
        assert json.loads(redact_json(to_json({"text": [text]}))) == {"text": [kept]}
        assert json.loads(json.loads(redact_json(to_json({"raw": json.dumps([text])})))["raw"]) == [kept]


@pytest.mark.parametrize(("told", "kept"), [*ARGUMENTS_WITH_SECRETS, *NO_DESCRIPTIONS])
def test_a_secret_is_known_by_the_option_before_it_and_from_a_description(told: Any, kept: Any) -> None:
    assert redact(told) == kept
    assert redact(kept) == kept
    assert json.loads(redact_json(to_json({"a": told}))) == {"a": kept}
    indented = json.dumps({"a": json.dumps([told], indent=2)}, indent=1)
    assert json.loads(json.loads(redact_json(Json(indented)))["a"]) == [kept]


@pytest.mark.parametrize("told", [*EVERYDAY_ARGUMENTS, *DESCRIPTIONS])
def test_everyday_arguments_and_descriptions_stay_as_they_are(told: Any) -> None:
    assert redact(told) is told
    text = to_json({"a": told, "raw": json.dumps(told)})
    assert redact_json(text) is text


def test_an_escaped_slash_hides_no_secret() -> None:
    inner = json.dumps({"url": "redis://:hunter2@host/0", "a": "Bearer abcd/hunter2"}).replace("/", "\\/")
    for text in (inner, json.dumps({"raw": inner}), json.dumps({"raw": json.dumps({"raw": inner})})):
        assert "hunter2" not in redact_json(Json(text))


def test_a_look_at_a_long_text_that_only_begins_like_a_secret_is_short() -> None:
    for piece in (
        "sk-",
        "--pass",
        "bearer a",
        "Bearer aaaaaaa.",
        "://",
        "://:a",
        "SG.a",
        "xapp-1-",
        "hf_a",
        "--a-",
        "eyJ",
    ):
        text = piece * (200_000 // len(piece))
        begun = time.process_time()
        redact_json(to_json({"text": text, "list": [text], "key@token": 1}))
        assert time.process_time() - begun < 2.0, piece


def test_a_string_that_is_json_is_looked_through_whatever_it_is_called() -> None:
    arguments = '{"user":"bob", "password":"hunter2secret", "api_keys": ["abc", "def"]}'
    body = {
        "messages": [
            {"role": "assistant", "tool_calls": [{"function": {"name": "login", "arguments": arguments}}]},
            {"role": "tool", "content": '{"ok": true,  "access_token": "tok-hunter3secret"}'},
        ],
        "raw": json.dumps(json.dumps({"a": [json.dumps({"dbPassword": 19283746})]})),
    }
    kept = json.loads(redact_json(to_json(body)))
    assert "hunter" not in str(kept)
    assert "19283746" not in str(kept)
    function = kept["messages"][0]["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == {"user": "bob", "password": REDACTED, "api_keys": [REDACTED, REDACTED]}
    assert kept["messages"][1]["content"] == '{"ok": true,  "access_token": "[redacted]"}'


def test_a_string_that_is_json_and_has_no_secret_stays_as_it_is_to_the_byte() -> None:
    told = {"raw": '{ "b": 1.0,  "a": [1e3, "x"] }', "password": "hunter2"}
    assert redact(told) == {"raw": told["raw"], "password": REDACTED}


def test_what_is_nested_deeper_than_anybody_looks_is_looked_through_as_text() -> None:
    text = "hunter2"
    for _ in range(12):
        text = json.dumps({"password": text}) if text == "hunter2" else json.dumps({"a": text})
    assert "hunter2" not in str(redact({"x": text}))
    deep = "[" * 5_000 + "]" * 5_000
    assert redact({"x": deep}) == {"x": deep}


def test_containers_of_secrets_are_emptied_and_counts_are_not() -> None:
    told: dict[str, Any] = {
        "api_keys": ["a", {"of": "b"}], "passwords": {"bob": "x", "amy": 1234}, "secrets": "a,b",
        "tokens": {"git": "abc"}, "session_tokens": ["abc"], "credentials": {"user": "a"},
    }  # fmt: skip
    assert redact(told) == {
        "api_keys": [REDACTED, {"of": REDACTED}], "passwords": {"bob": REDACTED, "amy": REDACTED}, "secrets": REDACTED,
        "tokens": {"git": REDACTED}, "session_tokens": [REDACTED], "credentials": REDACTED,
    }  # fmt: skip
    counted: dict[str, Any] = {
        "tokens": {"input": 3, "output": 4, "model": "gpt-5"}, "passwords": 12, "api_keys": [], "secrets": None,
        "usage": {"tokens": 3, "max_tokens": 5, "token": 7}, "secret": False, "cookies": 2, "token_ids": [1, 2],
        "stop_tokens": ["<end>"], "tokens_per_second": 4.5,
        "logprobs": {"content": [{"token": "Hello", "logprob": -0.1}]},
    }  # fmt: skip
    assert redact(counted) is counted


def test_a_number_is_a_secret_where_it_counts_nothing() -> None:
    assert redact({"password": 19283746, "pin": 1234, "token": 5}) == {
        "password": REDACTED,
        "pin": REDACTED,
        "token": 5,
    }


def test_a_secret_that_is_a_name_is_taken_out_and_nothing_is_lost() -> None:
    one, other = "sk-" + "a1" * 9, "sk-" + "b2" * 9
    assert redact({one: 1, other: 2}) == {REDACTED: 1, f"{REDACTED} (2)": 2}


def test_an_escaped_letter_hides_no_secret() -> None:
    for text in ('{"pa\\u0073sword": "hunter2"}', '{"raw": "{\\"pa\\\\u0073sword\\": \\"hunter2\\"}"}'):
        assert "hunter2" not in redact_json(text)  # type: ignore[arg-type]


PIECES = st.sampled_from(
    (
        *(
            "password",
            "token",
            "tokens",
            "api_key",
            "dbPassword",
            "X-Api-Key",
            "pwd",
            "pin",
            "Authorization",
            "next_page_token",
        ),
        *(
            "=",
            ": ",
            " = ",
            '": "',
            '"',
            "'",
            "\\",
            "\n",
            "\t",
            " ",
            "--",
            "?",
            "&",
            "{",
            "}",
            "[",
            "]",
            ",",
            "=>",
            ".",
            "@",
        ),
        *(
            "abc",
            "hunter2",
            "12345",
            "5",
            "Bearer ",
            "Basic ",
            "[redacted]",
            "https://",
            "sk-" + "a1" * 9,
            "ü",
            "\u2014",
            "\x00",
            "/x",
        ),
    )
)
MORE_PIECES = st.sampled_from((*MADE_KEYS, "://:", "abcdefgh", "bearer ", "SecretString", "--token", "--db_password"))
TEXTS = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=12)
NAMES = (
    st.sampled_from((*SECRET_NAMES, *EVERYDAY_NAMES))
    | TEXTS
    | st.tuples(
        st.sampled_from(("name: ", "key=", '"Key": "')),
        PIECES,
        st.sampled_from(("\n  value: ", '", "value":"', ", value=")),
    ).map("".join)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 10**6) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.tuples(NAMES, inner).map(list), max_size=3)
        | st.fixed_dictionaries({"name": NAMES, "value": inner})
        | st.tuples(st.sampled_from(("--token", "--db.password", "--tokens", "--no-pin", "-x")), inner).map(list)
        | st.fixed_dictionaries({"password": st.fixed_dictionaries({"type": st.just("string"), "default": inner})})
        | st.fixed_dictionaries({"errors": st.dictionaries(NAMES, inner | st.just(["is too short"]), max_size=2)})
        | st.fixed_dictionaries({"defaultValue": inner, "Key": NAMES})
        | st.dictionaries(TEXTS, inner, max_size=3)
        | inner.map(json.dumps)
        | inner.map(lambda value: json.dumps(value, ensure_ascii=False, indent=1))
    ),
    max_leaves=8,
)


@settings(max_examples=500)
@given(VALUES)
def test_whatever_is_taken_out_was_suspected_and_is_taken_out_once(value: Any) -> None:
    kept = redact(value)
    assert redact(kept) == kept
    if kept != value:
        assert suspicious(to_json(value))
        assert suspicious(json.dumps(value))
        assert suspicious(json.dumps(value, indent=1))
    else:
        assert kept is value or isinstance(value, str)


@settings(max_examples=500)
@given(st.lists(PIECES | NAMES | MORE_PIECES, max_size=6).map("".join))
def test_whatever_is_taken_out_of_a_text_was_suspected(text: str) -> None:
    """Texts are looked through only if they are."""
    if hide_values(hide_pairs(hide_keys(text), REDACTED), REDACTED) != text:
        assert suspicious(text)


@settings(max_examples=300)
@given(st.sampled_from(SECRET_NAMES), st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2))
def test_no_value_beside_a_secret_name_is_kept(name: str, more: dict[str, str]) -> None:
    secret = "s3cr3t-" * 3
    for told in ({**more, "name": name, "value": secret}, {"value": secret, **more, "key": name}, [[name, secret]]):
        assert secret not in redact_json(to_json(told))
        assert secret not in redact_json(to_json({"raw": json.dumps(told)}))
