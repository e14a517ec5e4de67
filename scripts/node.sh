#!/usr/bin/env bash
# Checks the dashboard's JavaScript (`check`), or runs its tests (`test`). Where node or its packages are
# missing it says so in one line and goes on: the page itself needs neither.
set -uo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

pass_over() {
    echo "JavaScript $1: PASSED OVER, $2" >&2
    exit 0
}

command -v node >/dev/null && command -v npm >/dev/null || pass_over "$1" "no node and npm; install node 20.19 or later"
node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
    pass_over "$1" "node $(node --version) is too old; install node 20.19 or later"

# Installed once for each lock file; another make that runs at the same time waits.
lock_hash=$(cksum package-lock.json .npmrc | cksum | cut -d' ' -f1)
is_installed() { [ "$(cat node_modules/.ares-lock 2>/dev/null)" = "$lock_hash" ]; }
install() {
    is_installed && return
    npm ci --silent --no-progress && echo "$lock_hash" >node_modules/.ares-lock
}
if ! is_installed; then
    mkdir -p .cache
    if command -v flock >/dev/null; then
        exec 9>.cache/npm.lock && flock 9
    fi
    install || is_fallback=yes
fi

case "$1" in
check)
    [ -z "${is_fallback:-}" ] || pass_over check "the packages of package-lock.json cannot be installed"
    npm run --silent check
    ;;
test) node --test --test-reporter=dot tests/app/dashboard/js/*.test.js ;; # needs no package
*) echo "usage: scripts/node.sh check|test" >&2 && exit 2 ;;
esac
