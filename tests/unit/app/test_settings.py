"""Settings come from options, the environment and defaults, in this order, and each knows which."""

from pathlib import Path

import pytest

from homeostat.app.settings import SETTINGS, Origin, Settings, is_loopback, read_settings
from homeostat.core.errors import SettingInvalid

HOME = {"HOME": "/somewhere/ann"}


def test_defaults_are_what_the_table_says() -> None:
    defaults = read_settings(HOME)
    for setting in SETTINGS:
        assert defaults.origin(setting.name) is Origin.DEFAULT
        if setting.name != "data_dir":
            assert getattr(defaults, setting.name) == setting.read(setting.default), setting.name
    assert defaults.data_dir == Path("/somewhere/ann/.local/share/homeostat")
    assert read_settings({**HOME, "XDG_DATA_HOME": "/data"}).data_dir == Path("/data/homeostat")
    assert read_settings({**HOME, "XDG_DATA_HOME": "relative"}).data_dir.is_relative_to("/somewhere/ann")


def test_an_option_beats_the_environment() -> None:
    environment = {**HOME, "HOMEOSTAT_PORT": "8000", "HOMEOSTAT_EPHEMERAL": "yes", "HOMEOSTAT_STORE_URL": ""}
    settings = read_settings(environment, {"port": 9000, "host": None})
    assert (settings.port, settings.origin("port")) == (9000, Origin.OPTION)
    assert (settings.ephemeral, settings.origin("ephemeral")) == (True, Origin.ENVIRONMENT)
    assert (settings.host, settings.origin("host")) == ("127.0.0.1", Origin.DEFAULT)
    assert settings.store_url is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "-1"),
        ("port", "65536"),
        ("port", "http"),
        ("lease_seconds", "0"),
        ("lease_seconds", "nan"),
        ("lease_seconds", "inf"),
        ("retention_seconds", "-5"),
        ("ephemeral", "perhaps"),
        ("store_url", "mysql://x"),
        ("bus_url", "http://x"),
        ("status_url", "memcached://x"),
        ("store_url", "postgresql://x:99999/y"),
        ("store_url", "postgresql://x:5432,y:z/w"),
        ("bus_url", "nats://x:99999"),
        ("status_url", "redis://x:y/0"),
        ("status_url", "redis://[x"),
        ("upstreams", "x=http://[y"),
        ("upstreams", "x=http://y:99999"),
        ("log_level", "loud"),
        ("host", "127.0.0.1\n"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingInvalid, match=f"HOMEOSTAT_{name.upper()}"):
        read_settings({f"HOMEOSTAT_{name.upper()}": value})
    with pytest.raises(SettingInvalid, match="--" + name.replace("_", "-")):
        read_settings({}, {name: value})


def test_a_store_of_several_hosts_may_be_named() -> None:
    url = "postgresql://ann:a@b,c@one:5432,two:5433,three/x"
    assert read_settings({**HOME, "HOMEOSTAT_STORE_URL": url}).store_url == url


def test_unknown_and_contradicting_settings_are_refused() -> None:
    with pytest.raises(SettingInvalid, match="colour"):
        read_settings({}, {"colour": "green"})
    with pytest.raises(SettingInvalid, match="ephemeral"):
        read_settings({}, {"ephemeral": True, "store_url": "postgresql://x"})


def test_a_variable_of_somebody_else_is_not_ours() -> None:
    assert read_settings({**HOME, "HOMEOSTAT_TEST_POSTGRES_URL": "x", "PORT": "1"}) == read_settings(HOME)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)
    assert Settings(host=host).loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.1.example.org", "128.0.0.1", "", "localhost.example"])  # noqa: S104
def test_everything_else_is_not(host: str) -> None:
    assert not is_loopback(host)
