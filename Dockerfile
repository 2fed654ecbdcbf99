# Two images: `walagent`, the daemon, and `postgres`, a server for a trial.
#
#   docker build --target walagent --tag walagent .
#
# Python packages are pinned with hashes (`make lock`).  To pin the base images, too, name them by digest, which
# `docker buildx imagetools inspect python:3.13-slim-bookworm` prints:
#
#   docker build --build-arg PYTHON_IMAGE=python:3.13-slim-bookworm@sha256:… …

ARG PYTHON_IMAGE=python:3.13-slim-bookworm
ARG POSTGRES_IMAGE=postgres:18-bookworm

# --- the wheel and its dependencies, in a virtual environment ------------------------------------
FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
COPY requirements.lock requirements-build.lock ./
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes --requirement requirements-build.lock
RUN python -m venv /opt/walagent \
    && /opt/walagent/bin/pip install --no-cache-dir --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY migrations migrations
COPY config config
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheel . \
    && /opt/walagent/bin/pip install --no-cache-dir --no-deps /wheel/*.whl

# --- a PostgreSQL with wal2json ------------------------------------------------------------------
FROM ${POSTGRES_IMAGE} AS postgres
RUN apt-get update \
    && apt-get install -y --no-install-recommends "postgresql-$PG_MAJOR-wal2json" \
    && rm -rf /var/lib/apt/lists/*
COPY --chmod=755 deploy/postgres/start /usr/local/bin/start-postgres
COPY --chmod=755 deploy/postgres/create-role /docker-entrypoint-initdb.d/create-role.sh
ENTRYPOINT ["start-postgres"]
CMD ["postgres"]

# --- the daemon; the last stage, so that `docker build .` builds it ------------------------------
FROM ${PYTHON_IMAGE} AS walagent
COPY --from=build /opt/walagent /opt/walagent
ENV PATH=/opt/walagent/bin:$PATH PYTHONUNBUFFERED=1
# Large transactions are stored in temporary files until they commit.  The directory is created here
# so that a volume on it is owned by the user below.
RUN install -d -o 65532 -g 65532 -m 700 /var/cache/walagent
ENV TMPDIR=/var/cache/walagent
VOLUME /var/cache/walagent
# A number, so that Kubernetes' runAsNonRoot can check it.
USER 65532:65532
# Liveness, not readiness: a daemon that waits for its database must not be restarted.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD \
    ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8642/healthz', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["walagent"]
CMD ["run", "--config", "/etc/walagent/agents.yaml"]
