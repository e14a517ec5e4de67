#!/usr/bin/env bash
# Writes requirements.lock (to run) and requirements-dev.lock (to develop) again from pyproject.toml, newest versions.
set -euo pipefail
cd "$(dirname "$0")/.."
compile() {
    .venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-header --no-annotate pyproject.toml "$@" >/dev/null
}
# The larger one first: what its libraries cannot live with must not be pinned in the smaller one.
compile --extra all --extra dev --extra mongo-test -o requirements-dev.lock
compile --extra models --extra app --extra mcap --extra mongo -c requirements-dev.lock -o requirements.lock
