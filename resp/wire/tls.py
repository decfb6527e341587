"""Loads a TLS context from PEM files, or explains which file is wrong."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from resp.settings.startup import RespSettings

_CLIENT_CERTIFICATES: Final = {
    "yes": ssl.CERT_REQUIRED,
    "optional": ssl.CERT_OPTIONAL,
    "no": ssl.CERT_NONE,
}
"""`tls_auth_clients`: every client must show a certificate; it may, and then it must be good; none is asked for."""


def server_context(settings: RespSettings) -> ssl.SSLContext:
    """What `settings` say of TLS, as a context: TLS 1.2 or 1.3, no compression, no renegotiation.

    Raises:
        ValueError: a file is missing or wrong; the message names the setting and the file, and no content.
    """
    verify_mode = _CLIENT_CERTIFICATES.get(settings.tls_auth_clients)
    if verify_mode is None:
        message = (
            f"tls_auth_clients is {settings.tls_auth_clients!r}; it must be one of {', '.join(_CLIENT_CERTIFICATES)}"
        )
        raise ValueError(message)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_certificate(context, _readable("tls_cert", settings.tls_cert), _readable("tls_key", settings.tls_key))
    if verify_mode is not ssl.CERT_NONE:
        _load_authorities(context, _readable("tls_ca", settings.tls_ca))
    context.verify_mode = verify_mode
    return context


def client_context(settings: RespSettings) -> ssl.SSLContext:
    """How this worker calls others over TLS: as a client that shows the server's own certificate and checks theirs.

    Raises:
        ValueError: as `server_context`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which checks certificates and the names in them
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION
    _load_certificate(context, _readable("tls_cert", settings.tls_cert), _readable("tls_key", settings.tls_key))
    _load_authorities(context, _readable("tls_ca", settings.tls_ca))
    return context


def _readable(setting: str, path: Path | None) -> Path:
    """The path, if a file is there that this process may read."""
    if path is None:
        message = f"{setting} is missing: TLS needs it"
        raise ValueError(message)
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        message = f"{setting}: cannot read {path}: {error.strerror}"
        raise ValueError(message) from error


def _load_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    def no_password() -> str:
        message = f"tls_key: {key} is encrypted; give a key without a password that only slotlog may read"
        raise ValueError(message)

    try:
        context.load_cert_chain(certificate, key, password=no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            message = f"tls_key: {key} does not belong to the certificate {certificate}"
        else:
            message = f"tls_cert, tls_key: no PEM certificate and key in {certificate} and {key}"
        raise ValueError(message) from error


def _load_authorities(context: ssl.SSLContext, authorities: Path) -> None:
    try:
        context.load_verify_locations(authorities)
    except ssl.SSLError as error:
        message = f"tls_ca: no PEM certificate in {authorities}"
        raise ValueError(message) from error
