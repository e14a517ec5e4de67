#!/bin/sh
# Installs into /opt/venv: `install.sh libraries EXTRA,...` what pyproject.toml names, pinned; `install.sh ares` ARES.
set -eu
export VIRTUAL_ENV="${VENV:-/opt/venv}"
case $1 in
    libraries)
        uv venv --quiet "$VIRTUAL_ENV"
        extras=$(printf '%s' "$2" | sed 's/,/ --extra /g')
        # shellcheck disable=SC2086 # one word for each extra
        uv pip install --no-cache --compile-bytecode -c requirements-dev.lock -r pyproject.toml --extra $extras
        ;;
    ares) uv pip install --no-cache --no-deps --compile-bytecode . ;;
    *) echo "usage: install.sh libraries EXTRA,... | ares" >&2; exit 2 ;;
esac
