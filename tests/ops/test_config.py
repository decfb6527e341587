"""Settings: precedence, ranges, and errors that name the setting and never repeat a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.addresses import is_loopback, parse_address
from ops.config import ConfigError, load_settings, unknown_variables
from ops.partition_lists import parse_own


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_option_goes_before_environment_before_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting given three times has the value of the command line, then of the environment, then of the file."""
    (tmp_path / "slotlog.toml").write_text('topic = "from-file"\npartitions = 2\n[kafka]\nclient_id = "from-file"\n')
    monkeypatch.setenv("SLOTLOG_TOPIC", "from-environment")

    settings = load_settings(partitions=4)

    assert ("from-environment", 4) == (settings.topic, settings.partitions)


def test_embedded_log_lies_in_the_data_directory() -> None:
    """Without --log, the log is a SQLite file in the data directory."""
    assert "sqlite:///here/log.sqlite3" == load_settings(data=Path("here")).log_url


def test_http_is_on_loopback_unless_told_otherwise() -> None:
    """Metrics and health have no password, so by default only this machine reaches them."""
    assert is_loopback(parse_address(load_settings().http)[0])
    assert [True, True, True] == [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost")]
    assert [False, False, False] == [is_loopback(host) for host in ("192.0.2.1", "::", "example.org")]


@pytest.mark.parametrize(
    ("own", "expected"), [("", [0, 1, 2, 3]), ("2", [2]), ("0-1,3", [0, 1, 3]), ("1-3,2", [1, 2, 3])]
)
def test_own_names_partitions_and_ranges(own: str, expected: list[int]) -> None:
    """--own takes numbers and ranges; empty means all."""
    assert expected == parse_own(own, 4)


@pytest.mark.parametrize(
    ("partitions", "count", "expected"),
    [(4, 2, [[0, 1], [2, 3]]), (4, 3, [[0], [1], [2, 3]]), (3, 3, [[0], [1], [2]]), (1, 1, [[0]])],
)
def test_own_of_cuts_the_partitions_evenly(partitions: int, count: int, expected: list[list[int]]) -> None:
    """Processes that know only their number and how many they are own each partition once; `own` goes before that."""
    shares = [load_settings(own_of=f"{index}/{count}", partitions=partitions).owned for index in range(count)]

    assert expected == shares
    assert [0] == load_settings(own_of=f"{count - 1}/{count}", own="0", partitions=partitions).owned


@pytest.mark.parametrize("own_of", ["2/2", "0/5", "0/0", "1", "-1/2", "a/b", "1/2/3"])
def test_own_of_that_leaves_a_process_without_partitions_is_refused(own_of: str) -> None:
    """A number that is not below the count, or more processes than partitions, is a mistake."""
    with pytest.raises(ConfigError, match="own_of"):
        load_settings(own_of=own_of, partitions=4)


@pytest.mark.parametrize("own", ["4", "3-1", "a", "1,,2", "0-9", "-1"])
def test_own_outside_the_partitions_is_refused(own: str) -> None:
    """A partition that is not there is a mistake, not an empty set."""
    with pytest.raises(ConfigError, match="own"):
        load_settings(own=own, partitions=4)


@pytest.mark.parametrize(
    ("name", "value"),
    [("topic", "a b"), ("partitions", 0), ("layout", "unknown"), ("http", "nowhere"), ("log_level", "loud")],
)
def test_wrong_setting_is_named(name: str, value: object) -> None:
    """The error says which setting is wrong."""
    with pytest.raises(ConfigError, match=name):
        load_settings(**{name: value})


def test_unknown_setting_in_the_file_is_refused(tmp_path: Path) -> None:
    """A misspelt setting is an error, not ignored."""
    (tmp_path / "slotlog.toml").write_text("particions = 2\n")

    with pytest.raises(ConfigError, match="particions"):
        load_settings()


@pytest.mark.parametrize("name", ["SLOTLOG_REDIS__CONFIG", "slotlog_redis"])
def test_a_variable_that_is_no_json_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a whole table as well; the value is not repeated."""
    monkeypatch.setenv(name, '{"canary-secret')

    with pytest.raises(ConfigError, match=f"^{name}: ") as error:
        load_settings()
    assert "canary-secret" not in str(error.value)


def test_missing_config_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """SLOTLOG_CONFIG that names no file is an error."""
    monkeypatch.setenv("SLOTLOG_CONFIG", "absent.toml")

    with pytest.raises(ConfigError, match="absent"):
        load_settings()


@pytest.mark.parametrize("name", ["SLOTLOG_REDIS_PASSWORD", "SLOTLOG_KAFKA_SASL_PASSWORD", "slotlog_redis_password"])
def test_one_underscore_too_few_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A nested setting's variable with one underscore is named with its true name, and not passed over."""
    monkeypatch.setenv(name, "canary-secret")
    right = name.upper().replace("REDIS_", "REDIS__").replace("KAFKA_", "KAFKA__")

    with pytest.raises(ConfigError, match=f"{name}: the setting is {right}$") as error:
        load_settings()
    assert "canary-secret" not in str(error.value)


def test_a_variable_of_somebody_else_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Kubernetes puts into the environment for a service `slotlog-redis` keeps no process from starting."""
    monkeypatch.setenv("SLOTLOG_REDIS_PORT", "tcp://192.0.2.1:6379")
    monkeypatch.setenv("SLOTLOG_SERVICE_HOST", "192.0.2.1")

    assert 1 == load_settings().partitions


def test_secret_is_in_no_error_and_no_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SASL password appears neither in the settings' repr nor in an error about another setting."""
    monkeypatch.setenv("SLOTLOG_KAFKA__SASL_PASSWORD", "canary-secret")

    assert "canary-secret" not in repr(load_settings())
    with pytest.raises(ConfigError) as error:
        load_settings(partitions=0)
    assert "canary-secret" not in str(error.value)


@pytest.mark.parametrize(
    ("address", "expected"), [("127.0.0.1:1", ("127.0.0.1", 1)), ("[::1]:80", ("::1", 80)), (":9", ("127.0.0.1", 9))]
)
def test_address_is_host_and_port(address: str, expected: tuple[str, int]) -> None:
    """HOST:PORT, brackets around IPv6, and loopback when no host is said."""
    assert expected == parse_address(address)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("partitons = 2", "slotlog.toml: partitons: there is no such setting: do you mean SLOTLOG_PARTITIONS?"),
        (
            "[redis]\npeerz = ''",
            "slotlog.toml: redis.peerz: there is no such setting: do you mean SLOTLOG_REDIS__PEERS?",
        ),
        ("foo = 1", "slotlog.toml: foo: there is no such setting"),
        ("partitions = 0", "slotlog.toml: partitions: Input should be greater than or equal to 1"),
        ("topic = = 1", "slotlog.toml is not TOML: Invalid value (at line 1, column 9)"),
    ],
)
def test_a_fault_of_the_file_names_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    """Where a setting of slotlog.toml is wrong, or the file is none, both are named."""
    (tmp_path / "slotlog.toml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_settings()

    assert said == str(raised.value)


def test_a_fault_names_where_the_setting_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable is named as such, also where the file has the same setting; an option by its name."""
    (tmp_path / "slotlog.toml").write_text("partitions = 2")
    monkeypatch.setenv("SLOTLOG_PARTITIONS", "many")
    with pytest.raises(ConfigError, match=r"^SLOTLOG_PARTITIONS: "):
        load_settings()
    with pytest.raises(ConfigError, match=r"^partitions: "):
        load_settings(partitions=0)


@pytest.mark.parametrize(
    ("name", "hints"),
    [
        (
            "SLOTLOG_PARTITONS",
            ["SLOTLOG_PARTITONS is no setting, and has no effect: do you mean SLOTLOG_PARTITIONS?"],
        ),
        ("slotlog_own_off", ["slotlog_own_off is no setting, and has no effect: do you mean SLOTLOG_OWN_OF?"]),
        ("SLOTLOG_FOO", ["SLOTLOG_FOO is no setting, and has no effect"]),
        ("SLOTLOG_ZZZ", ["SLOTLOG_ZZZ is no setting, and has no effect"]),
        ("SLOTLOG_PARTITIONS", []),
        ("SLOTLOG_KAFKA__GROUP", []),
        ("SLOTLOG_REDIS_SERVICE_HOST", []),
        ("SLOTLOG_PORT_6379_TCP_ADDR", []),
        ("SLOTLOG_PORT", []),
        ("OTHER", []),
    ],
)
def test_variables_that_are_no_setting_are_named(name: str, hints: list[str]) -> None:
    """A misspelt variable would have no effect without a word; those of Kubernetes' services are left alone."""
    assert hints == unknown_variables([name])
