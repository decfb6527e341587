"""A broker that asks for TLS and a password: settings are passed through, and nothing connects without them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from slotlog.errors import LogUnavailableError
from slotlog.log import Entry, KafkaSettings, open_log
from tests.faults.service import ServiceProcess
from tests.ops.verbs import get
from tests.real.broker import KafkaBroker

PASSWORD = "canary-of-the-secured-broker"
REFUSED = "the broker answers SASL_AUTHENTICATION_FAILED (Authentication failed: Invalid username or password)"
CERTIFICATE = "the broker's certificate does not verify: "
CLOSED = "the connection was closed at once; is the security protocol the one of this port?"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who signed the broker's certificate."""
    return trustme.CA()


@pytest.fixture(scope="module")
def broker(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker with a SASL_SSL listener and one user."""
    directory = tmp_path_factory.mktemp("secured")
    certificate = directory / "broker.pem"
    certificate.write_bytes(_pkcs8_pem(authority.issue_cert("127.0.0.1")))
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": f'{login} user_slotlog="{PASSWORD}";',
        "listener.name.secured.ssl.keystore.type": "PEM",
        "listener.name.secured.ssl.keystore.location": str(certificate),
    }
    with KafkaBroker(directory, properties, secured="SASL_SSL") as broker:
        yield broker


def _pkcs8_pem(issued: trustme.LeafCert) -> bytes:
    """Private key and certificates as Java reads them: the key in PKCS #8."""
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem + b"".join(blob.bytes() for blob in issued.cert_chain_pems)


@pytest.fixture
def settings(authority: trustme.CA, tmp_path: Path) -> KafkaSettings:
    """What opens the broker."""
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return KafkaSettings(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="slotlog",
        sasl_password=PASSWORD,
        ssl_ca=path,
        request_timeout_ms=5000,
    )


async def test_events_pass_through_tls_and_a_password(broker: KafkaBroker, settings: KafkaSettings) -> None:
    """With the right authority and password, records are appended and read back."""
    log = open_log(f"kafka://{broker.secured_bootstrap}", topic="secured", partitions=1, kafka=settings)
    await log.start()
    try:
        await log.append([Entry(0, b"\0\0", b"value")])
        reader = log.reader({0: 0})
        fetched = await reader.fetch(5000, 10)
    finally:
        await log.close()

    assert [b"value"] == [value for _, _, _, value in fetched[0]]


@pytest.mark.parametrize(
    ("host", "changed", "why"),
    [
        ("127.0.0.1", {"sasl_password": "wrong-secret"}, REFUSED),
        (
            "127.0.0.1",
            {"sasl_mechanism": "SCRAM-SHA-256"},
            "the broker answers UNSUPPORTED_SASL_MECHANISM (SCRAM-SHA-256)",
        ),
        ("127.0.0.1", {"ssl_ca": "other.pem"}, f"{CERTIFICATE}unable to get local issuer certificate"),
        ("localhost", {}, f"{CERTIFICATE}Hostname mismatch, certificate is not valid for 'localhost'"),
        ("127.0.0.1", {"security_protocol": "PLAINTEXT"}, CLOSED),
    ],
)
async def test_nothing_connects_without_the_right_secret(
    broker: KafkaBroker, settings: KafkaSettings, host: str, changed: dict[str, Any], why: str, tmp_path: Path
) -> None:
    """Whatever keeps a client out of a secured broker is told by the error, which shows no secret."""
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    if "ssl_ca" in changed:
        changed = {"ssl_ca": tmp_path / changed["ssl_ca"]}
    servers = broker.secured_bootstrap.replace("127.0.0.1", host)
    log = open_log(f"kafka://{servers}", topic="secured", partitions=1, kafka=replace(settings, **changed))
    texts = []
    for ask in (log.start, partial(log.end_offset, 0), partial(log.append, [Entry(0, b"", b"")])):
        with pytest.raises(LogUnavailableError) as error:
            await ask()
        texts.append(str(error.value))
    await log.close()

    assert [True] * 3 == [f"{servers}: {why}" in text for text in texts], texts
    assert not any(secret in text for secret in (PASSWORD, "wrong-secret") for text in texts)


def test_a_wrong_password_is_named(broker: KafkaBroker, settings: KafkaSettings, tmp_path: Path) -> None:
    """A service that waits for Kafka says why it is not let in, in its log and on `/readyz`, and no secret."""
    variables = {
        "SLOTLOG_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
        "SLOTLOG_KAFKA__SASL_MECHANISM": "PLAIN",
        "SLOTLOG_KAFKA__SASL_USERNAME": "slotlog",
        "SLOTLOG_KAFKA__SASL_PASSWORD": "wrong-secret",
        "SLOTLOG_KAFKA__SSL_CA": str(settings.ssl_ca),
    }
    options = ["--data", str(tmp_path / "data"), "--log", f"kafka://{broker.secured_bootstrap}"]
    options += ["--http", "127.0.0.1:0"]
    with ServiceProcess(options, variables) as service:
        service.wait_for("stamina.retry_scheduled")
        _, ready = get(service, "/readyz")
        assert 0 == service.terminate()
        service.wait_for_end()

    assert ["error"] == [line["level"] for line in service.seen if "Authentication failed" in line["event"]]
    assert json.loads(ready)["log"]["reason"].endswith(f"no connection to {broker.secured_bootstrap}: {REFUSED}")
    assert "wrong-secret" not in f"{json.dumps(service.seen)}{ready!r}"


async def test_certificates_that_are_being_replaced(broker: KafkaBroker, settings: KafkaSettings) -> None:
    """While a file is missing from which a new connection is made, the log is unavailable, and not broken."""
    assert settings.ssl_ca is not None
    log = open_log(f"kafka://{broker.secured_bootstrap}", topic="replaced", partitions=1, kafka=settings)
    await log.start()
    authority = settings.ssl_ca.read_bytes()
    settings.ssl_ca.unlink()
    reader = log.reader({0: 0})

    with pytest.raises(LogUnavailableError, match="the certificates for Kafka"):
        await reader.fetch(100, 1)
    with pytest.raises(LogUnavailableError, match="the certificates for Kafka"):
        await log.end_offset(0)
    settings.ssl_ca.write_bytes(authority)

    assert {} == await reader.fetch(100, 1)
    assert await log.end_offset(0) == 0
    await log.close()


async def test_hung_broker(broker: KafkaBroker, settings: KafkaSettings) -> None:
    """TLS waits long for the farewell of a broker that hangs: a client is given up all the same, and others come."""
    impatient = replace(settings, request_timeout_ms=3000)
    log = open_log(f"kafka://{broker.secured_bootstrap}", topic="hung", partitions=1, kafka=impatient)
    await log.start()
    await log.commit({0: 0})
    assert await log.end_offset(0) == 0
    broker.pause()
    try:
        async with asyncio.timeout(60):
            with pytest.raises(LogUnavailableError):
                await log.end_offset(0)
            with pytest.raises(LogUnavailableError):
                await log.start()
    finally:
        broker.resume()
    async with asyncio.timeout(60):
        while True:
            try:
                await log.check(0, 0, None)
                break
            except LogUnavailableError:
                await asyncio.sleep(0.1)
    await log.close()
