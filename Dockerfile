# One image for every process of the product; docker-compose.yml says which one a container runs.
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

# What the product needs, compiled, and nothing to install more with.
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock \
    && pip uninstall --yes pip

COPY config/ config/
COPY ops/ ops/
RUN python -m ops.jars

COPY . .
RUN python -m streaming.kernel && python -m ops.class_archive
RUN useradd --system --uid 10001 --home-dir /data tallyboard \
    && install -d -m 0700 -o tallyboard /data
ENV PYTHONDONTWRITEBYTECODE=1
USER tallyboard
VOLUME /data
EXPOSE 8000
