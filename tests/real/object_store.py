"""A real S3 server over a directory: versitygw, which the Makefile builds."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from tests.real.process import Server, Started, free_ports

PROGRAM: Final = Path(__file__).parents[2] / ".cache" / "s3" / "versitygw"
START_TIMEOUT_S: Final = 60
BUCKET: Final = "bucket"
SECRET: Final = "canary-of-s3"


class ObjectStore(Started):
    """One S3 server with one bucket.

    Args:
        directory: its own.

    Attributes:
        url: of the bucket.
        bucket: the directory that has its objects as files.
        environment: how a client finds it and logs in.
    """

    def __init__(self, directory: Path) -> None:
        (port,) = free_ports(1)
        self.url = f"s3://{BUCKET}"
        self.bucket = directory / "buckets" / BUCKET
        self.bucket.mkdir(parents=True)
        self._port = port
        self.environment = {
            "AWS_ACCESS_KEY_ID": "slotlog",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
        }
        command = [str(PROGRAM), "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(self.bucket.parent)]
        login = {"ROOT_ACCESS_KEY": "slotlog", "ROOT_SECRET_KEY": SECRET}
        super().__init__(Server("versitygw", command, directory / "s3.log", self._answers, START_TIMEOUT_S, login))

    def _answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
