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
    ares)
        uv pip install --no-cache --no-deps --compile-bytecode .
        # The wheel leaves out what only the demo needs: its samples and models belong beside its candidates.
        demo=$(dirname "$(find "$VIRTUAL_ENV/lib" -path '*/demo/candidates.txt')")
        cp -r app/demo/models app/demo/samples "$demo"
        # Files of a clone may be readable by their owner alone, and the image runs as another user.
        chmod -R a+rX . "$demo"
        ;;
    *) echo "usage: install.sh libraries EXTRA,... | ares" >&2; exit 2 ;;
esac
