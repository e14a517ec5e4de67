#!/usr/bin/env bash
# Makes .venv hold what a lock says: `setup.sh run` or `setup.sh dev`. A second call does nothing; a changed
# lock, pyproject.toml, interpreter or folder installs again. All messages go to standard error.
set -euo pipefail
cd "$(dirname "$0")/.."
exec 1>&2

UV=uv==0.13.8
kind=${1:-run}
case $kind in
    run) lock=requirements.lock ;;
    dev) lock=requirements-dev.lock ;;
    *) echo "usage: scripts/setup.sh [run|dev]"; exit 2 ;;
esac

fail() { echo "set-up: $1"; exit 2; }

works() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

version() { "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])'; }

stamp_of() {
    { pwd; echo "${ARES_PYTHON:-}"; cat "$1" pyproject.toml scripts/setup.sh; } | sha256sum | cut -d ' ' -f 1
}

fresh() { # FILE LOCK: the environment was made from this lock and still works
    [ "$(cat ".venv/$1" 2>/dev/null)" = "$(stamp_of "$2")" ] && works .venv/bin/python
}

done_already() {
    fresh .ares-dev requirements-dev.lock || { [ "$kind" = run ] && fresh .ares-run requirements.lock; }
}

find_python() {
    if [ -n "${ARES_PYTHON:-}" ]; then
        works "$ARES_PYTHON" || fail "ARES_PYTHON=$ARES_PYTHON is no Python 3.11 or newer"
        echo "$ARES_PYTHON" >&3
        return
    fi
    for name in python3 python3.13 python3.12 python3.11; do
        if works "$name"; then echo "$name" >&3; return; fi
    done
    fail "Python 3.11 or newer is needed, but python3 is $(python3 --version 2>&1 || true); install one or name it in ARES_PYTHON"
}

with_venv_module() { # PYTHON: Debian ships python3 without ensurepip
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    local package
    package="$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    echo "set-up: $1 lacks ensurepip; installing $package"
    scripts/as_root.sh apt-get update -qq && scripts/as_root.sh apt-get install -y -qq "$package" >/dev/null ||
        fail "$1 cannot make virtual environments; run: apt-get install $package"
}

make_venv() { # PYTHON
    if [ -x .venv/bin/pip ] && works .venv/bin/python && [ "$(version .venv/bin/python)" = "$(version "$1")" ]; then
        return
    fi
    with_venv_module "$1"
    echo "set-up: making .venv with Python $(version "$1")"
    "$1" -m venv --clear .venv || fail "$1 -m venv failed"
}

install() {
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "$UV" || fail "pip could not install $UV"
    export VIRTUAL_ENV="$PWD/.venv"
    # Compiled now: where bytecode is not written (a read-only folder, PYTHONDONTWRITEBYTECODE) starts take twice as long.
    .venv/bin/uv pip install --quiet --compile-bytecode -r "$lock" && .venv/bin/uv pip install --quiet --no-deps -e . && return
    echo "set-up: uv could not install; trying pip, which may be set up for another package mirror"
    .venv/bin/python -m pip install --quiet -r "$lock" && .venv/bin/python -m pip install --quiet --no-deps -e . ||
        fail "neither uv nor pip could install $lock; their messages are above"
}

if done_already; then exit 0; fi
mkdir -p .cache
exec 9>.cache/setup.lock
flock 9
if done_already; then exit 0; fi

python=$( { find_python; } 3>&1 1>&2 )
make_venv "$python"
echo "set-up: installing $lock into .venv (about 7 GB with CUDA; a minute or more)"
started=$SECONDS
install
stamp_of "$lock" >".venv/.ares-$kind"
echo "set-up: done in $((SECONDS - started)) s"
