# Server and worker in one image; which of them a container is, its command says (see compose.yaml).
#
#   docker build -t mainspring .
#
# BASE is any image with Python 3.11 or later and its venv module. Pin it by digest where builds must be repeatable.
# LOCK is `runtime`, or the name of an extra whose packages it holds besides: `mail`, `login`, `archive` and so on.
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS build
ARG LOCK=runtime
WORKDIR /build
COPY requirements requirements
RUN python3 -m venv /opt/mainspring \
 && python3 -m venv /opt/build \
 && /opt/mainspring/bin/pip install --no-cache-dir --disable-pip-version-check \
        --require-hashes --only-binary=:all: -r requirements/${LOCK}.lock \
 && /opt/build/bin/pip install --no-cache-dir --disable-pip-version-check \
        --require-hashes --only-binary=:all: -r requirements/build.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/build/bin/pip wheel --no-cache-dir --disable-pip-version-check \
        --no-deps --no-build-isolation --wheel-dir dist . \
 && /opt/mainspring/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-index dist/*.whl \
 && /opt/mainspring/bin/python -m compileall -q /opt/mainspring/lib \
 && /opt/mainspring/bin/pip uninstall --yes --quiet pip setuptools

FROM ${BASE}
# Debian packages besides, for a BASE that is Debian: `mainspring backup` on PostgreSQL needs `postgresql-client`, of the
# server's version or a later one.
ARG PACKAGES=
RUN if [ -n "${PACKAGES}" ]; then \
        apt-get update && apt-get install --yes --no-install-recommends ${PACKAGES} && rm -rf /var/lib/apt/lists/*; \
    fi
RUN groupadd --system --gid 8620 mainspring \
 && useradd --system --uid 8620 --gid mainspring --no-create-home --home-dir /var/lib/mainspring mainspring \
 && install -d -o mainspring -g mainspring /var/lib/mainspring /app
COPY --from=build /opt/mainspring /opt/mainspring
COPY deploy/image/healthy.py /opt/mainspring/healthy.py
ENV PATH=/opt/mainspring/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# Apps are imported from the current folder: mount yours here.
WORKDIR /app
USER mainspring
EXPOSE 8620
STOPSIGNAL SIGTERM
# Exec form, so that the process itself gets SIGTERM. Its children are its own: it needs no init, though one does no harm.
ENTRYPOINT ["mainspring"]
CMD ["--help"]
