#!/usr/bin/env bash
# Installs what the tests need from the system: Chromium for the dashboard tests, libcurl for the test mongod.
# Never fails: tests that lack a browser are skipped, and this says so. Messages go to standard error.
set -u # without pipefail: grep -q ends the pipe before its writer is done
cd "$(dirname "$0")/.."
exec 1>&2

have_chromium() {
    [ -x "${ARES_TEST_CHROMIUM:-/usr/bin/chromium}" ] || command -v chromium chromium-browser google-chrome >/dev/null ||
        [ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ] ||
        compgen -G "$HOME/.cache/ms-playwright/chromium-*/chrome-linux*/chrome" >/dev/null ||
        compgen -G "$HOME/Library/Caches/ms-playwright/chromium-*/chrome-mac*/*.app" >/dev/null
}

have_libcurl() { # only on Linux is it no part of the system
    [ "$(uname -s)" != Linux ] || command -v mongod >/dev/null || [ -n "${ARES_TEST_MONGO_URI:-}" ] ||
        ldconfig -p 2>/dev/null | grep -q 'libcurl\.so\.4 '
}

apt_install() {
    command -v apt-get >/dev/null && scripts/as_root.sh apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

packaged() { apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [0-9]'; }

if have_chromium && have_libcurl; then exit 0; fi
echo "test set-up: installing system packages for the tests (Chromium, libcurl)"
command -v apt-get >/dev/null && scripts/as_root.sh apt-get update -qq
have_libcurl || apt_install libcurl4
if ! have_chromium; then
    if packaged chromium; then
        apt_install chromium
    elif command -v apt-get >/dev/null; then # Ubuntu has Chromium only as a snap
        .venv/bin/playwright install --with-deps chromium >/dev/null
    else
        .venv/bin/playwright install chromium >/dev/null
    fi
fi
have_libcurl || echo "test set-up: NO libcurl.so.4: the mongod of the test wheel cannot start; run: apt-get install libcurl4"
have_chromium || echo "test set-up: NO CHROMIUM: the dashboard's browser tests will be SKIPPED; run: apt-get install chromium"
exit 0
