#!/usr/bin/env bash
# Opens an export with texts in lerobot itself: `verify_exports.sh` one of the demo's sample, `verify_exports.sh FOLDER` your own.
# lerobot needs Python 3.12 and other libraries than ARES, so it has an environment of its own in .cache, some GB with PyTorch.
# Where there is no Python 3.12 it says "not verified" and ends with 0; where lerobot reads something else, with 1.
set -euo pipefail
cd "$(dirname "$0")/.."

LEROBOT=0.6.1
environment=.cache/lerobot-$LEROBOT
bin="${ARES_BIN:-.venv/bin}"

is_python_312() { "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; }

find_python_312() { # prints the path of a Python 3.12; fails where there is none
    local name
    for name in python3.12 python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python; do
        if is_python_312 "$name"; then echo "$name"; return; fi
    done
    return 1
}

make_environment() { # PYTHON
    [ "$(cat "$environment/.ares-done" 2>/dev/null)" = "$LEROBOT" ] && return
    echo "verify-exports: installing lerobot $LEROBOT into $environment (some GB)" >&2
    mkdir -p .cache
    "$1" -m venv --clear "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "lerobot[dataset]==$LEROBOT"
    echo "$LEROBOT" >"$environment/.ares-done"
}

if ! python="$(find_python_312)"; then
    echo "not verified: no Python 3.12"
    exit 0
fi
if ! make_environment "$python"; then
    echo "not verified: lerobot $LEROBOT could not be installed; the messages of pip are above" >&2
    exit 2
fi
folder="${1:-}"
if [ -z "$folder" ]; then
    scratch="$(mktemp -d)"
    trap 'rm -rf "$scratch"' EXIT
    folder="$scratch/export"
    "$bin/python" -m scripts.verify_exports write "$folder"
fi
"$environment/bin/python" scripts/verify_exports.py read "$folder"
