#!/usr/bin/env bash
# Makes .venv hold what a lock says: `setup.sh run`, `setup.sh dev`, or `setup.sh app` for the dashboard without models.
# A second call does nothing; a changed lock, pyproject.toml, interpreter or folder installs again.
# Works with bash 3.2 and POSIX tools alone (macOS). Where no Python 3.11 to 3.14 is, uv fetches one; uv itself comes from
# PATH, else by the pip of an older Python, else by curl or wget. All messages go to standard error.
set -euo pipefail
cd "$(dirname "$0")/.."
exec 1>&2

UV=0.13.8
FETCHED_PYTHON=3.11 # the version that the tests run with
kind=${1:-run}
case $kind in
    run) lock=requirements.lock size="about 7 GB with CUDA; a minute or more" ;;
    dev) lock=requirements-dev.lock size="about 7 GB with CUDA; a minute or more" ;;
    app) lock=requirements.lock size="its part without models, about 1.3 GB" ;;
    *) echo "usage: scripts/setup.sh [run|dev|app]"; exit 2 ;;
esac

fail() { echo "set-up: $1" >&2; exit 2; }

works() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; }

version() { "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])'; }

stamp_of() {
    { pwd; echo "${ARES_PYTHON:-}"; cat "$1" pyproject.toml scripts/setup.sh; } | cksum
}

fresh() { # STAMP LOCK: the environment was made from this lock and still works
    [ "$(cat ".venv/.ares-$1" 2>/dev/null)" = "$(stamp_of "$2")" ] && works .venv/bin/python
}

done_already() { # a larger environment serves as well
    fresh dev requirements-dev.lock && return
    [ "$kind" != dev ] && fresh run requirements.lock && return
    [ "$kind" = app ] && fresh app requirements.lock
}

# Locks file descriptor 9, which this shell keeps open until it ends. macOS has no flock(1) but a Python or Perl.
wait_for_other_setups() {
    flock 9 2>/dev/null ||
        python3 -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)' 2>/dev/null ||
        perl -e 'use Fcntl ":flock"; open(LOCK, ">&=9") && flock(LOCK, LOCK_EX) or exit 1' 2>/dev/null ||
        echo "set-up: no flock, python3 or perl; do not run a second set-up beside this one"
}

find_python() { # prints the interpreter for .venv; fails when there is none
    local name
    if [ -n "${ARES_PYTHON:-}" ]; then
        works "$ARES_PYTHON" || fail "ARES_PYTHON=$ARES_PYTHON is no Python 3.11 to 3.14"
        echo "$ARES_PYTHON"
        return
    fi
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if works "$name"; then echo "$name"; return; fi
    done
    return 1
}

can_make_venv() { # PYTHON: Debian ships python3 without ensurepip
    local package
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    package="$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    echo "set-up: $1 lacks ensurepip; installing $package"
    scripts/as_root.sh apt-get update -qq && scripts/as_root.sh apt-get install -y -qq "$package" >/dev/null
}

find_uv() { # prints the path of uv, fetched when there is none
    local name folder="$PWD/.cache/uv"
    if uv --version >/dev/null 2>&1; then echo uv; return; fi
    for name in python3 python; do
        "$name" -m pip install --quiet --upgrade --target "$folder" "uv==$UV" >&2 2>/dev/null || continue
        echo "$folder/bin/uv"
        return
    done
    local url="https://astral.sh/uv/$UV/install.sh" script=.cache/uv-install.sh
    { curl -LsSf "$url" -o "$script" || wget -q "$url" -O "$script"; } 2>/dev/null &&
        UV_UNMANAGED_INSTALL="$folder/bin" sh "$script" >&2 && echo "$folder/bin/uv"
}

venv_by_uv() { # PYTHON: the name of an interpreter, or a version that uv fetches
    local uv
    uv="$(find_uv)" ||
        fail "Python 3.11 to 3.14 is needed, python3 is $(python3 --version 2>&1 || true), and uv, which fetches one, could not be fetched; install either, or name a Python in ARES_PYTHON"
    echo "set-up: making .venv by uv with Python $1"
    rm -rf .venv
    UV_PYTHON_INSTALL_BIN=0 "$uv" venv --quiet --no-project --seed --python "$1" .venv ||
        fail "uv could not make .venv with Python $1; install Python 3.11 to 3.14, or name one in ARES_PYTHON"
}

make_venv() { # PYTHON: "" when there is none
    if [ -x .venv/bin/pip ] && works .venv/bin/python &&
        { [ -z "$1" ] || [ "$(version .venv/bin/python)" = "$(version "$1")" ]; }; then
        return
    fi
    if [ -z "$1" ]; then
        venv_by_uv "$FETCHED_PYTHON"
    elif can_make_venv "$1"; then
        echo "set-up: making .venv with Python $(version "$1")"
        "$1" -m venv --clear .venv || fail "$1 -m venv failed"
    else
        venv_by_uv "$1"
    fi
}

install() {
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "uv==$UV" || fail "pip could not install uv==$UV"
    export VIRTUAL_ENV="$PWD/.venv"
    # Compiled now: where bytecode is not written (a read-only folder, PYTHONDONTWRITEBYTECODE) starts take twice as long.
    if [ "$kind" = app ]; then
        .venv/bin/uv pip install --quiet --compile-bytecode -c "$lock" -r pyproject.toml --extra app --extra mcap --extra mongo &&
            .venv/bin/uv pip install --quiet --no-deps -e . && return
        fail "uv could not install the dashboard; its messages are above"
    fi
    .venv/bin/uv pip install --quiet --compile-bytecode -r "$lock" && .venv/bin/uv pip install --quiet --no-deps -e . && return
    echo "set-up: uv could not install; trying pip, which may be set up for another package mirror"
    .venv/bin/python -m pip install --quiet -r "$lock" && .venv/bin/python -m pip install --quiet --no-deps -e . ||
        fail "neither uv nor pip could install $lock; their messages are above"
}

if done_already; then exit 0; fi
mkdir -p .cache
exec 9>.cache/setup.lock
wait_for_other_setups
if done_already; then exit 0; fi

python="$(find_python)" || [ -z "${ARES_PYTHON:-}" ] || exit 2
make_venv "$python"
echo "set-up: installing $lock into .venv ($size)"
started=$SECONDS
install
stamp_of "$lock" >".venv/.ares-$kind"
echo "set-up: done in $((SECONDS - started)) s"
