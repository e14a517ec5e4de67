#!/usr/bin/env bash
# Runs a command as root: directly, or by sudo when that asks no question; fails where neither can be.
set -euo pipefail
if [ "$(id -u)" = 0 ]; then
    DEBIAN_FRONTEND=noninteractive exec "$@"
fi
command -v sudo >/dev/null || exit 1
exec sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
