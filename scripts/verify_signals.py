"""Compares every signal of sample datasets with what lerobot and TensorFlow read of their exports.

    python -m scripts.verify_signals write FOLDER DATA         by the Python of ARES: ingest, export, note the sources
    LEROBOT_PYTHON scripts/verify_signals.py lerobot FOLDER    what LeRobotDataset has
    TENSORFLOW_PYTHON scripts/verify_signals.py rlds FOLDER    what tensorflow_datasets has, also of RLDS sources
    python -m scripts.verify_signals table FOLDER              a line for each signal of each sample

DATA is a folder of datasets with their README. Sources of Parquet, HDF5, npz and RLDS are read without ARES; of MCAP
the signals are those that ARES has. Values must be equal, bit for bit; 64-bit numbers are held as 32 bits, which the
table calls "rounded", or "retyped" where 32 bits hold all of them. See scripts/verify_exports.sh.
"""

import json
import os
import pickle
import re
import sys
from pathlib import Path

# Columns that number rows, episodes and texts.
_INDEX_COLUMNS = {"timestamp", "frame_index", "episode_index", "index", "task_index"}
_INDEX_COLUMNS |= {"annotation.human.action.task_description"}
FORMATS = ("lerobot", "rlds")


def find_samples(data):
    """Folders of datasets: those of DATA, and of its folders of several."""
    several = ("demo", "irregular", "reported")
    folders = [path for path in sorted(data.iterdir()) if path.is_dir() and path.name not in several]
    return folders + [path for name in several for path in sorted((data / name).glob("*/"))]


def write_samples(folder, data):
    """Ingest and export each sample in a workspace of its own; note its signals and what was said to be lost."""
    import ares
    from ares.curation import FailureSelection, accept_failures
    from ares.errors import AresError

    for sample in find_samples(data):
        name = sample.relative_to(data).as_posix().replace("/", "-")
        place, said = folder / name, []
        with ares.open(place / "workspace", create=True) as workspace:
            try:
                report = workspace.ingest(str(sample), quiet=True)
                said += [f"ingest: {json.dumps(report.to_json()[part])}" for part in ("not_read", "failures")]
                # Episodes of which videos are missing are exported when somebody has said so.
                accept_failures(workspace.stores, FailureSelection(work="incomplete"))
            except AresError as error:
                said.append(f"ingest: {error}")
            episodes = sorted(workspace.episodes, key=lambda episode: (len(episode.key), episode.key))
            table = workspace.stores.tables.trajectories
            trajectories = {episode.episode_id: table.get(episode.episode_id) for episode in episodes}
            for format in FORMATS if episodes else ():
                try:
                    report = workspace.export(workspace.episodes, place / format, format=format, quiet=True)
                    said += [
                        f"{format}: {line}" for line in (*report.left_out, *map(json.dumps, report.failures))
                    ]
                except AresError as error:
                    said.append(f"{format}: {error}")
        with (place / "source.pickle").open("wb") as file:
            pickle.dump(
                {
                    "episodes": [(episode.episode_id, episode.source, episode.split) for episode in episodes],
                    "ares": {id: ares_signals(trajectory) for id, trajectory in trajectories.items()},
                    "source": read_source(sample),
                    "said": [*dict.fromkeys(said)],
                    "path": str(sample),
                },
                file,
            )


def ares_signals(trajectory):
    """The signals of an episode of a workspace, by name."""
    signals = {"state": trajectory.state, "action": trajectory.action, **trajectory.extra}
    values = {name: signal.values for name, signal in signals.items() if signal is not None}
    return values if trajectory.reward is None else values | {"reward": trajectory.reward}


def read_source(sample):
    """Where each episode of a source of Parquet, HDF5 or npz is, its split or "", and its signals, in order."""
    parquet, hdf5, npz = (sorted(sample.rglob(f"*.{suffix}")) for suffix in ("parquet", "hdf5", "npz"))
    if parquet:
        return read_parquet([path for path in parquet if "meta" not in path.parts])
    if hdf5:
        return [(str(path), "", episode) for path in hdf5 for episode in read_hdf5(path)]
    return [(str(sample), "", episode) for episode in read_npz(npz)]


def read_parquet(paths):
    """Columns of numbers by episode."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    episodes = {}
    for path in paths:
        table = pq.read_table(path)
        folder = path.parts[: len(path.parts) - path.parts[::-1].index("data") - 1]
        numbers = table["episode_index"].to_numpy()
        for name in table.column_names:
            kind = table.schema.field(name).type
            while pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
                kind = kind.value_type
            is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
            if name in _INDEX_COLUMNS or not is_number:
                continue
            values = np.array(table[name].to_pylist(), kind.to_pandas_dtype())
            for number in np.unique(numbers):
                place = str(Path(*folder)), int(number)
                episodes.setdefault(place, {})[name] = values[numbers == number]
    return [(place[0], "", episodes[place]) for place in sorted(episodes)]


def read_hdf5(path):
    """Arrays with a row per step, without pictures: of groups of demonstrations, or of a file that has some."""
    import h5py
    import numpy as np

    with h5py.File(path) as file:
        names = (
            sorted(file["data"], key=lambda name: int(re.sub(r"\D", "", name))) if "data" in file else [""]
        )
        for name in names:
            arrays = {}
            group = file[f"data/{name}"] if name else file
            group.visititems(
                lambda key, item, arrays=arrays: (
                    arrays.update({key: item}) if hasattr(item, "dtype") else None
                )
            )
            steps = next(arrays[key].shape[0] for key in ("actions", "action") if key in arrays)
            values = {
                key: item[:]
                for key, item in arrays.items()
                if item.shape[:1] == (steps,) and item.dtype.kind in "fiub" and "images" not in key
            }
            ends = np.zeros(steps, bool)
            for key in ("terminals", "timeouts"):
                ends |= np.asarray(values.get(key, ends), bool)
            cuts = np.flatnonzero(ends)[:-1] + 1 if ends.any() else []
            parts = {key: np.split(array, cuts) for key, array in values.items()}
            yield from ({key: part[number] for key, part in parts.items()} for number in range(len(cuts) + 1))


def read_npz(paths):
    """Arrays of a file with a row per step, without pictures; of files of one step the spans that an index names."""
    import numpy as np

    files = [dict(np.load(path, allow_pickle=False)) for path in paths]
    spans = paths and paths[0].parent / "ep_start_end_ids.npy"
    if spans and spans.exists():
        by_number = dict(zip((int(re.sub(r"\D", "", path.stem)) for path in paths), files, strict=True))
        steps = [[by_number[number] for number in range(first, last + 1)] for first, last in np.load(spans)]
        files = [{key: np.stack([step[key] for step in episode]) for key in episode[0]} for episode in steps]
    return [
        {key: values for key, values in file.items() if values.dtype.kind in "fiub" and values.ndim < 4}
        for file in files
    ]


def read_lerobot(folder):
    """Every feature of numbers of every episode as lerobot has it, into FOLDER/SAMPLE/lerobot.pickle."""
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    # The folder of this script has a tree.py, which would hide a library.
    sys.path.pop(0)
    import importlib.metadata
    import logging

    import numpy as np

    logging.disable(logging.WARNING)
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    opened = 0
    for place in sorted(folder.glob("*/lerobot")):
        episodes = {}
        for info in sorted(place.rglob("meta/info.json")):
            dataset = LeRobotDataset("local/sample", root=info.parent.parent, video_backend="pyav")
            opened, item = opened + 1, dataset[len(dataset) - 1]
            table = dataset.hf_dataset.with_format("numpy")
            names = [
                name
                for name, feature in dataset.features.items()
                if feature["dtype"] not in ("video", "image", "string", "language")
                and name not in _INDEX_COLUMNS
            ]
            assert all(name in item for name in names)
            columns = {
                name: np.asarray(table[:][name]).astype(dataset.features[name]["dtype"], copy=False)
                for name in names
            }
            for row in dataset.meta.episodes:
                span = slice(row["dataset_from_index"], row["dataset_to_index"])
                episodes[row["ares/episode_id"]] = {name: values[span] for name, values in columns.items()}
        (place.parent / "lerobot.pickle").write_bytes(pickle.dumps(episodes))
    print(f"lerobot {importlib.metadata.version('lerobot')} opened {opened} folders of LeRobot v3.0")


def read_rlds(folder):
    """The same by tensorflow_datasets, and the signals of sources that are RLDS themselves."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    sys.path.pop(0)
    import tensorflow_datasets as tfds

    opened = 0
    for place in sorted(path.parent for path in folder.glob("*/source.pickle")):
        episodes = {}
        for features in sorted((place / "rlds").rglob("features.json")):
            opened += 1
            for _, episode in read_builder(tfds.builder_from_directory(features.parent)):
                metadata = episode["episode_metadata"]
                episodes[metadata["ares_episode_id"].numpy().decode()] = step_arrays(episode)
        if (place / "rlds").exists():
            (place / "rlds.pickle").write_bytes(pickle.dumps(episodes))
        source = Path(pickle.loads((place / "source.pickle").read_bytes())["path"])
        records = [
            (str(features.parent), split, step_arrays(episode))
            for features in sorted(source.rglob("features.json"))
            for split, episode in read_builder(tfds.builder_from_directory(features.parent))
        ]
        if records:
            (place / "records.pickle").write_bytes(pickle.dumps(records))
    print(f"TensorFlow opened {opened} folders of RLDS")


def read_builder(builder):
    """Episodes of all splits, with the name of the split."""
    for split in builder.info.splits:
        yield from ((split, episode) for episode in builder.as_dataset(split=split))


def step_arrays(episode):
    """Arrays of numbers with a row per step, by path, without pictures."""
    import numpy as np

    arrays = {}

    def add(path, value):
        if isinstance(value, dict):
            for name, part in value.items():
                add(f"{path}/{name}" if path else name, part)
        elif value.dtype != "string" and not (value.dtype == "uint8" and value.ndim == 3):
            arrays.setdefault(path, []).append(value.numpy())

    for step in episode["steps"]:
        add("", step)
    return {path: np.array(values) for path, values in arrays.items()}


def last_word(name):
    """The last part of a name, in the singular."""
    return re.split(r"[/.]", name)[-1].removesuffix("s")


def find_signal(name, values, exported):
    """Where the columns of a signal stand side by side in a feature of an export."""
    import numpy as np

    rows = values.reshape(len(values), -1)
    order = sorted(exported, key=lambda key: (last_word(key) != last_word(name), exported[key].size))
    if (rows == rows[:1]).all():
        # Many features have a column of one value, so that the name decides.
        order = [
            key for key in order if last_word(key) in {last_word(part) for part in re.split(r"[/.]", name)}
        ]
    lengths = {len(array) for array in exported.values()}
    for key in order:
        there = exported[key].reshape(len(exported[key]), -1)
        if len(there) != len(rows):
            continue
        for at in range(there.shape[1] - rows.shape[1] + 1):
            part = there[:, at : at + rows.shape[1]]
            if np.array_equal(part, rows, equal_nan=rows.dtype.kind == "f"):
                return key, str(there.dtype), "kept" if there.dtype == rows.dtype else "retyped"
            if np.array_equal(part.astype("float32"), rows.astype("float32"), equal_nan=True):
                return key, str(there.dtype), "rounded"
    if lengths and lengths != {len(rows)}:
        return "", "", f"{max(lengths)} of {len(rows)} steps"
    return "", "", "lost"


def wanted_signals(place, facts):
    """The signals of each episode by its source, where that has as many in the place, else by ARES; and how many."""
    records, wanted = place / "records.pickle", dict(facts["ares"])
    sources, own = {}, 0
    for where, split, signals in pickle.loads(records.read_bytes()) if records.exists() else facts["source"]:
        sources.setdefault((where, split), []).append(signals)
    for (where, split), episodes in sources.items():
        ids = [
            id for id, source, side in facts["episodes"] if source.startswith(where) and split in ("", side)
        ]
        if len(ids) == len(episodes):
            own += len(ids)
            wanted.update(zip(ids, episodes, strict=True))
    return f"signals of {own} by the source, of {len(wanted) - own} by ARES", wanted


def collect_fates(place, wanted):
    """By signal, format, and fate the ids of episodes."""
    fates = {}
    for format in FORMATS:
        read = place / f"{format}.pickle"
        exported = pickle.loads(read.read_bytes()) if read.exists() else {}
        for id, signals in wanted.items():
            for name, values in signals.items():
                fate = find_signal(name, values, exported[id]) if id in exported else ("", "", "not exported")
                fates.setdefault(name, {}).setdefault(format, {}).setdefault(fate, []).append(id)
    return fates


def print_table(folder):
    """Print it; returns the number of signals that are lost or differ without a word."""
    silent = 0
    for place in sorted(path.parent for path in folder.glob("*/source.pickle")):
        facts = pickle.loads((place / "source.pickle").read_bytes())
        by, wanted = wanted_signals(place, facts)
        print(f"\n{place.name}: {len(wanted)} episodes, {by}")
        for name, by_format in sorted(collect_fates(place, wanted).items()):
            values = next(signals[name] for signals in wanted.values() if name in signals)
            cells = []
            for format, found in by_format.items():
                for (key, dtype, fate), ids in found.items():
                    cells.append(f"{format}: {fate}{f' as {key} {dtype}' if key else ''} ({len(ids)})")
                    words = rf"^{format}:" if fate == "not exported" else rf"\b{re.escape(last_word(name))}"
                    is_said = any(re.search(words, line) for line in facts["said"])
                    silent += fate not in ("kept", "rounded", "retyped") and not is_said
            print(f"  {name} {values.dtype}{list(values.shape[1:])} | {' | '.join(cells)}")
        for line in facts["said"]:
            if line != "ingest: []":
                print(f"  said: {line[:400]}")
    print(f"\n{silent} signals lost or changed that no report names")
    return silent


if __name__ == "__main__":
    mode, target = sys.argv[1], Path(sys.argv[2])
    if mode == "write":
        write_samples(target, Path(sys.argv[3]))
    elif mode == "table":
        raise SystemExit(int(print_table(target) > 0))
    else:
        {"lerobot": read_lerobot, "rlds": read_rlds}[mode](target)
