#!/usr/bin/env bash
# What takes too long for every change, one part after the other; every part runs, whatever became of those before.
# `nightly.sh small` tries each part in its smallest size, and only collects the tests, some minutes. Exit status 1 when a part failed.
set -uo pipefail
cd "$(dirname "$0")/.."
bin="${ARES_BIN:-.venv/bin}"
tests=(-n auto --dist worksteal) torture=(--minutes 60) mutants=(--minutes 60)
rows=(9 18) memory=(memory) curation=(--nightly)
case "${1:-}" in
    "") ;;
    small)
        tests=(--collect-only) torture=(--short) mutants=(--count 2 --goal 0 --match ares/export/retime.py --tests tests/ares/export/test_retime.py)
        rows+=(--sizes 24 --rounds 0) memory+=(--sizes 5 10) curation=(--small)
        ;;
    *) echo "usage: scripts/nightly.sh [small]" >&2; exit 2 ;;
esac

status=0
part() { # NAME COMMAND...
    local name=$1 started=$SECONDS ended
    shift
    echo "== $name: $*"
    "$@"
    ended=$?
    [ "$ended" = 0 ] || status=1
    echo "== $name: exit status $ended after $((SECONDS - started)) s"
}

part "marked tests" "$bin/python" -m pytest -q -m nightly "${tests[@]}"
part "torture" "$bin/python" -m tests.torture "${torture[@]}"
part "mutants" "$bin/python" -m tests.mutants "${mutants[@]}"
part "a million rows" "$bin/python" -m benchmarks.run "${rows[@]}"
part "curated sets" "$bin/python" -m benchmarks.curation "${curation[@]}"
part "memory" "$bin/python" -m benchmarks.run "${memory[@]}"
exit $status
