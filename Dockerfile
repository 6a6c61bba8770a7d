# One image for every process of the product, and for Spark's executors on Kubernetes:
# docker-compose.yml and deploy/kubernetes say which one a container runs.
# docs/operations.md says how the digest of PYTHON_IMAGE is filled in.
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm
FROM ${PYTHON_IMAGE}

RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /app
ENV PYTHONUNBUFFERED=1 \
    TALLYBOARD_DATA_DIR=/data \
    TALLYBOARD_JARS_DIR=/app/.jars

# What the product needs, compiled, and nothing to install more with. What comes as sources is built
# by what requirements-build.lock pins, not by what is newest in the registry.
COPY requirements.lock requirements-build.lock ./
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements-build.lock \
    && pip install --no-cache-dir --require-hashes --no-build-isolation --use-pep517 \
        -r requirements.lock \
    && pip uninstall --yes setuptools wheel pip

COPY config/ config/
COPY ops/ ops/
RUN python -m ops.jars

COPY . .
RUN python -m streaming.kernel && python -m ops.class_archive
RUN useradd --system --uid 10001 --home-dir /data tallyboard \
    && install -d -m 0700 -o tallyboard /data /data/snapshots /command-keys
ENV PYTHONDONTWRITEBYTECODE=1
USER tallyboard
VOLUME /data
EXPOSE 8000
ENTRYPOINT ["/app/ops/entrypoint.sh"]
