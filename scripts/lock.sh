#!/usr/bin/env bash
# Writes requirements.lock (to run) and requirements-dev.lock (to develop) anew from pyproject.toml, newest versions.
set -euo pipefail
cd "$(dirname "$0")/.."
compile() {
    .venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-header --no-annotate pyproject.toml "$@" >/dev/null
}
compile -o requirements.lock
compile -c requirements.lock --extra dev --extra mongo-test --extra ray --extra map -o requirements-dev.lock
