#!/usr/bin/env bash
# Opens an export with texts in lerobot itself, and a merged set with weights, of which it trains three steps: `verify_exports.sh` those of the demo's sample, `verify_exports.sh FOLDER` your own.
# lerobot needs Python 3.12 and other libraries than ARES, so it has a separate environment in .cache, some GB with PyTorch.
# The merged set is read by the lerobot of ARES_LEROBOT_PYTHON (0.4.4), ARES_LEROBOT03_PYTHON (0.3.3, for v2.1) and the TensorFlow of
# ARES_TENSORFLOW_PYTHON as well, where they are named. ARES_LANCE_PYTHON has lerobot-lancedb 0.3.1, which no released lerobot replaces yet.
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
    local made="$LEROBOT training"
    [ "$(cat "$environment/.ares-done" 2>/dev/null)" = "$made" ] && return
    echo "verify-exports: installing lerobot $LEROBOT into $environment (some GB)" >&2
    mkdir -p .cache
    "$1" -m venv --clear "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "lerobot[training]==$LEROBOT"
    echo "$made" >"$environment/.ares-done"
}

if ! python="$(find_python_312)"; then
    echo "not verified: no Python 3.12"
    exit 0
fi
if ! make_environment "$python"; then
    echo "not verified: lerobot $LEROBOT could not be installed; the messages of pip are above" >&2
    exit 2
fi
read_merged() { # FORMAT SCRIPT PYTHON; nothing without a Python
    [ -n "$3" ] || { echo "merged, $1: not read, no Python is named for it"; return; }
    local frames="" read="$scratch/read.json"
    rm -f "$scratch/frames.npz"
    if [ "$2" = check_lerobot ]; then frames="$scratch/frames.npz"; fi
    echo "merged, $1, by $3:"
    "$3" "scripts/$2.py" "$scratch/merged/$1" ${frames:+--frames-out "$frames"} >"$read" 2>"$scratch/read.err" ||
        { tail -n 20 "$scratch/read.err" >&2; return 1; }
    "$bin/python" -m scripts.verify_merged check "$scratch/merged" "$read" ${frames:+"$frames"}
}

train_act() { # PYTHON; three steps of a small ACT on the processor, from the export with weights
    (unset PYTHONPATH; HF_HUB_OFFLINE=1 "$(dirname "$1")/lerobot-train" --dataset.repo_id=local/merged \
        --dataset.root="$scratch/merged/lerobot" --dataset.video_backend=pyav --policy.type=act --policy.device=cpu \
        --policy.push_to_hub=false --policy.pretrained_backbone_weights=null --policy.dim_model=64 --policy.chunk_size=10 \
        --policy.n_action_steps=10 --steps=3 --batch_size=2 --num_workers=0 --log_freq=1 --save_checkpoint=false \
        --output_dir="$scratch/train") >"$scratch/train.log" 2>&1 || { tail -n 20 "$scratch/train.log" >&2; return 1; }
    echo "three steps of ACT by $1: $(grep -o ' loss:[0-9.]*' "$scratch/train.log" | tr '\n' ' ')"
}

read_lance() { # PYTHON; of the export without texts, by the reader of lerobot-lancedb, which decodes by torchcodec
    if ! "$1" -c 'import lerobot_lancedb, torchcodec.decoders' 2>/dev/null; then
        echo "on Lance: not read, $1 has no lerobot-lancedb, or torchcodec finds no FFmpeg"
        return
    fi
    "$bin/python" -m scripts.verify_lance write "$scratch/on-lance"
    "$1" scripts/verify_lance.py read "$scratch/on-lance"
}

folder="${1:-}" scratch=""
if [ -z "$folder" ]; then
    scratch="$(mktemp -d)"
    trap 'rm -rf "$scratch"' EXIT
    folder="$scratch/export"
    "$bin/python" -m scripts.verify_exports write "$folder"
fi
"$environment/bin/python" scripts/verify_exports.py read "$folder"
if [ -n "$scratch" ]; then
    if [ -n "${ARES_TENSORFLOW_PYTHON:-}" ]; then
        "$ARES_TENSORFLOW_PYTHON" scripts/check_rlds.py "$folder-rlds" >"$scratch/rlds.json" 2>"$scratch/rlds.err" ||
            { tail -n 20 "$scratch/rlds.err" >&2; exit 1; }
        "$bin/python" -m scripts.verify_exports check-rlds "$folder" "$scratch/rlds.json"
    else
        echo "RLDS: not read, no Python is named for it"
    fi
    "$bin/python" -m scripts.verify_merged write "$scratch/merged"
    read_merged lerobot check_lerobot "$environment/bin/python"
    "$environment/bin/python" scripts/verify_merged.py weights "$scratch/merged"
    train_act "$environment/bin/python"
    read_lance "${ARES_LANCE_PYTHON:-$environment/bin/python}"
    read_merged lerobot check_lerobot "${ARES_LEROBOT_PYTHON:-}"
    read_merged lerobot-v2.1 check_lerobot "${ARES_LEROBOT03_PYTHON:-}"
    read_merged rlds check_rlds "${ARES_TENSORFLOW_PYTHON:-}"
fi
