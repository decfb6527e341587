# slotlog, and nothing that built it, such as a C compiler:  docker build --tag slotlog .
FROM python:3.11.14-bookworm AS build

WORKDIR /build
COPY requirements/run.txt requirements/build.txt requirements/
RUN python -m venv --without-pip /opt/slotlog \
 && pip --python /opt/slotlog/bin/python install --no-cache-dir --require-hashes --requirement requirements/run.txt \
 && pip install --no-cache-dir --require-hashes --requirement requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY slotlog slotlog
COPY engine engine
COPY ingest ingest
COPY resp resp
COPY ops ops
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir wheels . \
 && pip --python /opt/slotlog/bin/python install --no-cache-dir --no-deps wheels/*.whl

FROM python:3.11.14-slim-bookworm

RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin slotlog \
 && install --directory --owner=slotlog --group=slotlog --mode=0700 /data
COPY --from=build /opt/slotlog /opt/slotlog

# All addresses, as only so a published port leads here. Redis clients of other machines are refused until there is a
# password (SLOTLOG_REDIS__PASSWORD): docs/security.md.
ENV PATH=/opt/slotlog/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    SLOTLOG_DATA=/data \
    SLOTLOG_HTTP=0.0.0.0:8640 \
    SLOTLOG_RESP=0.0.0.0:6379
USER 10001:10001
VOLUME /data
EXPOSE 6379 8640
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=6 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8640/livez', timeout=4)"]
ENTRYPOINT ["slotlog"]
CMD ["serve"]
