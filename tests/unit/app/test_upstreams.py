"""Upstreams and prices are read from settings, keys are never shown, and mistakes are told in words."""

import json
from pathlib import Path

import pytest

from homeostat.app.settings import read_settings
from homeostat.app.upstreams import NONE_CONFIGURED, open_outlets, read_prices
from homeostat.core.errors import SettingInvalid
from homeostat.gateway.metering import UnknownModel
from homeostat.gateway.routes import Family

SECRET = "sk-very-secret"  # noqa: S105 - it is meant to be looked for


def test_nobody_named_means_the_simulated_model() -> None:
    assert read_settings({}).upstreams == NONE_CONFIGURED
    assert all(one.simulated for one in NONE_CONFIGURED)
    assert read_settings({"HOMEOSTAT_UPSTREAMS": "simulated"}).upstreams == NONE_CONFIGURED


def test_upstreams_by_name_with_their_keys() -> None:
    text = "openai, local=http://127.0.0.1:11434/v1/ claude=anthropic+https://x.example old=replay:/tmp/r.jsonl"
    environment = {"HOMEOSTAT_UPSTREAMS": text, "OPENAI_API_KEY": SECRET, "HOMEOSTAT_CLAUDE_API_KEY": SECRET + "2"}
    settings = read_settings(environment)
    first, local, claude, old = settings.upstreams
    assert (first.url, first.key, first.family) == ("https://api.openai.com", SECRET, Family.OPENAI)
    assert (local.url, local.key) == ("http://127.0.0.1:11434", "")
    assert (claude.url, claude.key, claude.family) == ("https://x.example", SECRET + "2", Family.ANTHROPIC)
    assert (old.recording, old.simulated) == (Path("/tmp/r.jsonl"), False)  # noqa: S108
    assert SECRET not in repr(settings)
    assert not any(SECRET in one.place for one in settings.upstreams)
    outlets = open_outlets(settings.upstreams[:3], answer_seconds=5)
    assert [outlet.asks_usage for outlet in outlets] == [True, True, False]


@pytest.mark.parametrize(
    "text", ["openai", "v1=http://x", "Up=http://x", "foo", "foo=ftp://x", "a=http://x,a=http://y", "../x=http://x"]
)
def test_what_cannot_be_an_upstream(text: str) -> None:
    with pytest.raises(SettingInvalid):
        read_settings({"HOMEOSTAT_UPSTREAMS": text})


def test_prices_overrule_the_list(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"mine": {"input": 1.25, "output": 10}}))
    price = read_prices(path)["mine"]
    assert (price.base.input, price.base.output, price.base.cache_read) == (1_250_000, 10_000_000, 1_250_000)
    assert read_prices(None) == {}
    for wrong in ("[", '{"m": {"inptu": 1}}', '{"m": {"output": 1}}', '{"m": {"input": -1}}', '{"m": 3}', "[1]"):
        path.write_text(wrong)
        with pytest.raises(SettingInvalid):
            read_prices(path)


def test_models_without_a_price() -> None:
    assert read_settings({"HOMEOSTAT_UNKNOWN_MODEL": "refuse"}).unknown_model is UnknownModel.REFUSE
    with pytest.raises(SettingInvalid):
        read_settings({"HOMEOSTAT_UNKNOWN_MODEL": "guess"})
