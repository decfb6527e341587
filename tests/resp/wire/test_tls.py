"""TLS settings to a context: which clients get through the handshake, and what wrong files are told."""

from __future__ import annotations

import contextlib
import ssl
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from resp.settings.startup import RespSettings
from resp.wire.tls import server_context

PAST = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass
class Files:
    """The PEM files of a server whose clients' certificates come from the same authority."""

    authority: trustme.CA
    cert: Path
    key: Path
    ca: Path

    def settings(self, auth_clients: str = "yes") -> RespSettings:
        """TLS settings with these files."""
        return RespSettings(tls_auth_clients=auth_clients, tls_cert=self.cert, tls_key=self.key, tls_ca=self.ca)


def write_leaf(leaf: trustme.LeafCert, directory: Path) -> tuple[Path, Path]:
    """Certificate and key as files."""
    cert, key = directory / "cert.pem", directory / "key.pem"
    leaf.cert_chain_pems[0].write_to_path(cert)
    leaf.private_key_pem.write_to_path(key)
    return cert, key


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A server certificate for localhost, and the authority."""
    authority = trustme.CA()
    cert, key = write_leaf(authority.issue_cert("localhost"), tmp_path)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return Files(authority, cert, key, tmp_path / "ca.pem")


def client_context(trusted: trustme.CA, leaf: trustme.LeafCert | None = None) -> ssl.SSLContext:
    """What a client trusts, and the certificate that it shows."""
    context = ssl.create_default_context()
    trusted.configure_trust(context)
    if leaf is not None:
        leaf.configure_cert(context)
    return context


def handshake(settings: RespSettings, client: ssl.SSLContext, host: str = "localhost") -> str | None:
    """The TLS version that the two agree on; raises what either of them has against the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server_context(settings).wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(ends)
    while waiting:
        for end in list(waiting):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
                waiting.remove(end)
    return ends[0].version()


def test_a_client_with_a_certificate_of_the_authority_gets_in(files: Files) -> None:
    """Both sides know each other."""
    client = client_context(files.authority, files.authority.issue_cert("client"))

    assert handshake(files.settings(), client) == "TLSv1.3"


@pytest.mark.parametrize("auth_clients", ["no", "optional"])
def test_a_client_without_a_certificate_gets_in_where_none_is_needed(files: Files, auth_clients: str) -> None:
    """`no` and `optional` let it in."""
    assert handshake(files.settings(auth_clients), client_context(files.authority)) == "TLSv1.3"


def test_a_client_without_a_certificate_is_refused_where_one_is_needed(files: Files) -> None:
    """`yes`, the default, wants one."""
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        handshake(files.settings(), client_context(files.authority))


@pytest.mark.parametrize("auth_clients", ["yes", "optional"])
def test_a_client_certificate_of_another_authority_is_refused(files: Files, auth_clients: str) -> None:
    """Also where none would be needed."""
    client = client_context(files.authority, trustme.CA().issue_cert("client"))

    with pytest.raises(ssl.SSLError, match="unable to get local issuer"):
        handshake(files.settings(auth_clients), client)


def test_an_expired_client_certificate_is_refused(files: Files) -> None:
    """Its authority is right, its time is over."""
    client = client_context(files.authority, files.authority.issue_cert("client", not_after=PAST))

    with pytest.raises(ssl.SSLError, match="certificate has expired"):
        handshake(files.settings(), client)


def test_a_client_refuses_a_server_that_it_has_no_reason_to_trust(files: Files, tmp_path: Path) -> None:
    """Wrong authority, wrong host and an expired certificate, each by the client's own check."""
    cert, key = write_leaf(files.authority.issue_cert("localhost", not_after=PAST), tmp_path)
    expired = replace(files.settings("no"), tls_cert=cert, tls_key=key)
    trusting = client_context(files.authority)

    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(expired, trusting)
    fresh_cert, fresh_key = write_leaf(files.authority.issue_cert("localhost"), tmp_path)
    fresh = replace(files.settings("no"), tls_cert=fresh_cert, tls_key=fresh_key)
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        handshake(fresh, client_context(trustme.CA()))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(fresh, trusting, host="elsewhere")


def test_tls_1_1_is_refused(files: Files) -> None:
    """TLS 1.2 gets in, 1.1 does not."""
    at_the_limit, past_it = client_context(files.authority), client_context(files.authority)
    at_the_limit.maximum_version = ssl.TLSVersion.TLSv1_2
    past_it.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        past_it.minimum_version = past_it.maximum_version = ssl.TLSVersion.TLSv1_1

    assert handshake(files.settings("no"), at_the_limit) == "TLSv1.2"
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        handshake(files.settings("no"), past_it)


def test_missing_and_wrong_files_are_named(files: Files, tmp_path: Path) -> None:
    """The error says which setting, which file, and what is wrong; nothing of a key."""
    text, absent = tmp_path / "text.pem", tmp_path / "absent.pem"
    text.write_text("no certificate")
    _, other_key = write_leaf(trustme.CA().issue_cert("localhost"), _directory(tmp_path / "other"))

    wrong = {
        "tls_cert is missing: TLS needs it": replace(files.settings(), tls_cert=None),
        "tls_key is missing: TLS needs it": replace(files.settings(), tls_key=None),
        "tls_ca is missing: TLS needs it": replace(files.settings(), tls_ca=None),
        f"tls_cert: cannot read {absent}: No such file or directory": replace(files.settings(), tls_cert=absent),
        f"tls_key: cannot read {tmp_path}: Is a directory": replace(files.settings(), tls_key=tmp_path),
        f"tls_cert, tls_key: no PEM certificate and key in {text} and {files.key}": replace(
            files.settings(), tls_cert=text
        ),
        f"tls_cert, tls_key: no PEM certificate and key in {files.cert} and {text}": replace(
            files.settings(), tls_key=text
        ),
        f"tls_key: {other_key} does not belong to the certificate {files.cert}": replace(
            files.settings(), tls_key=other_key
        ),
        f"tls_ca: no PEM certificate in {text}": replace(files.settings(), tls_ca=text),
        "tls_auth_clients is 'maybe'; it must be one of yes, optional, no": files.settings("maybe"),
    }
    assert [_problem(settings) for settings in wrong.values()] == list(wrong)


def test_no_authority_is_needed_where_no_certificate_is_asked_for(files: Files) -> None:
    """`tls_auth_clients=no` does without `tls_ca`."""
    assert server_context(replace(files.settings("no"), tls_ca=None)).verify_mode is ssl.CERT_NONE


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password(files: Files, tmp_path: Path) -> None:
    """OpenSSL would ask on the terminal, where nobody sits."""
    encrypted = tmp_path / "encrypted.pem"
    key = load_pem_private_key(files.key.read_bytes(), None)
    encrypted.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password of the test"))
    )

    assert _problem(replace(files.settings(), tls_key=encrypted)) == (
        f"tls_key: {encrypted} is encrypted; give a key without a password that only slotlog may read"
    )


def _problem(settings: RespSettings) -> str:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the text is what is compared
        server_context(settings)
    return str(refused.value)


def _directory(path: Path) -> Path:
    path.mkdir()
    return path
