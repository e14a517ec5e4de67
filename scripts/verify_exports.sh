#!/usr/bin/env bash
# Opens exports in lerobot and TensorFlow themselves: `verify_exports.sh` those of the demo's sample, `verify_exports.sh FOLDER` your own.
# Without a folder: texts and what people corrected, a merged set with weights, v2.1 by the converter of lerobot, RLDS, Lance; lerobot trains
# three steps of ACT on what lacks nothing, and fails on videos alone, whose list says why. ARES_SAMPLES names a folder of datasets, of
# which every signal is compared as well.
# lerobot needs Python 3.12 and other libraries than ARES, so it has an environment in .cache, and TensorFlow another, 7 GB with PyTorch.
# ARES_LEROBOT_PYTHON (0.4.4) and ARES_LEROBOT03_PYTHON (0.3.3, for v2.1) read the merged set as well, where they are named.
# Where there is no Python 3.12 it says "not verified" and ends with 0; where a library reads something else, with 1.
set -euo pipefail
cd "$(dirname "$0")/.."

LEROBOT=0.6.1
environment=.cache/lerobot-$LEROBOT tensorflow=.cache/tensorflow
bin="${ARES_BIN:-.venv/bin}"

is_python_312() { "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; }

find_python_312() { # prints the path of a Python 3.12; fails where there is none
    local name
    for name in python3.12 python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python; do
        if is_python_312 "$name"; then echo "$name"; return; fi
    done
    return 1
}

make_environment() { # FOLDER PACKAGES...
    local folder="$1"
    shift
    [ "$(cat "$folder/.ares-done" 2>/dev/null)" = "$*" ] && return
    echo "verify-exports: installing $* into $folder" >&2
    mkdir -p .cache
    "$python" -m venv --clear "$folder"
    if ! "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; then
        echo "not verified: $* could not be installed; the messages of pip are above" >&2
        exit 2
    fi
    echo "$*" >"$folder/.ares-done"
}

link_ffmpeg() { # the FFmpeg of PyAV under the names by which torchcodec looks for it
    local libraries name
    libraries="$(echo "$PWD/$environment"/lib/python*/site-packages/av.libs)"
    mkdir -p "$environment/ffmpeg"
    for name in "$libraries"/lib{av,sw}*.so.*; do
        ln -sf "$name" "$environment/ffmpeg/$(basename "$name" | sed -E 's/-[0-9a-f]+(\.so\.[0-9]+).*/\1/')"
    done
    export LD_LIBRARY_PATH="$PWD/$environment/ffmpeg:$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

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

convert_merged() { # lerobot 0.6 reads v2.1 by its own converter alone
    HF_HUB_OFFLINE=1 "$environment/bin/python" -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id=local/merged \
        --root="$scratch/merged/lerobot-v2.1" --push-to-hub=false >"$scratch/convert.log" 2>&1 ||
        { tail -n 20 "$scratch/convert.log" >&2; return 1; }
}

run_training() { # FOLDER; three steps of a small ACT on the processor
    rm -rf "$scratch/train"
    (unset PYTHONPATH; HF_HUB_OFFLINE=1 "$environment/bin/lerobot-train" --dataset.repo_id=local/set \
        --dataset.root="$1" --dataset.video_backend=pyav --policy.type=act --policy.device=cpu \
        --policy.push_to_hub=false --policy.pretrained_backbone_weights=null --policy.dim_model=64 --policy.chunk_size=10 \
        --policy.n_action_steps=10 --steps=3 --batch_size=2 --num_workers=0 --log_freq=1 --save_checkpoint=false \
        --output_dir="$scratch/train") >"$scratch/train.log" 2>&1
}

train_act() { # FOLDER
    run_training "$1" || { tail -n 20 "$scratch/train.log" >&2; return 1; }
    echo "three steps of ACT by lerobot-train on ${1#"$scratch/"}: $(grep -o ' loss:[0-9.]*' "$scratch/train.log" | tr '\n' ' ')"
}

fail_act() { # FOLDER of videos alone: what ends lerobot-train is in the list of what the export lacks
    if run_training "$1"; then echo "lerobot-train takes an export without action" >&2; return 1; fi
    echo "lerobot-train on videos alone: $(tail -n 1 "$scratch/train.log")"
    grep 'lacks: no action' "$1/README.md"
}

python="$(find_python_312)" || { echo "not verified: no Python 3.12"; exit 0; }
make_environment "$environment" "lerobot[training]==$LEROBOT" lerobot-lancedb==0.3.1
link_ffmpeg
folder="${1:-}"
if [ -n "$folder" ]; then
    exec "$environment/bin/python" scripts/verify_exports.py read "$folder"
fi
make_environment "$tensorflow" tensorflow-cpu==2.21.0 tensorflow-datasets==4.9.10
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
folder="$scratch/export"
"$bin/python" -m scripts.verify_exports write "$folder"
"$environment/bin/python" scripts/verify_exports.py read "$folder"
"$tensorflow/bin/python" scripts/check_rlds.py "$folder-rlds" >"$scratch/rlds.json" 2>"$scratch/rlds.err" ||
    { tail -n 20 "$scratch/rlds.err" >&2; exit 1; }
"$bin/python" -m scripts.verify_exports check-rlds "$folder" "$scratch/rlds.json"
train_act "$folder-whole/files"
fail_act "$folder"
"$environment/bin/python" scripts/verify_lance.py "$folder-whole"
"$bin/python" -m scripts.verify_merged write "$scratch/merged"
read_merged lerobot check_lerobot "$environment/bin/python"
"$environment/bin/python" scripts/verify_merged.py weights "$scratch/merged"
train_act "$scratch/merged/lerobot"
read_merged rlds check_rlds "$tensorflow/bin/python"
read_merged lerobot check_lerobot "${ARES_LEROBOT_PYTHON:-}"
read_merged lerobot-v2.1 check_lerobot "${ARES_LEROBOT03_PYTHON:-}"
convert_merged
read_merged lerobot-v2.1 check_lerobot "$environment/bin/python"
if [ -n "${ARES_SAMPLES:-}" ]; then
    "$bin/python" -m scripts.verify_signals write "$scratch/signals" "$ARES_SAMPLES"
    "$environment/bin/python" scripts/verify_signals.py lerobot "$scratch/signals"
    "$tensorflow/bin/python" scripts/verify_signals.py rlds "$scratch/signals"
    "$bin/python" -m scripts.verify_signals table "$scratch/signals"
fi
