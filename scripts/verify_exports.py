"""Writes a LeRobot folder with texts by ARES, and reads one with lerobot itself: see scripts/verify_exports.sh.

    python -m scripts.verify_exports write FOLDER     the demo's sample with made-up texts, by the Python of ARES
    LEROBOT_PYTHON scripts/verify_exports.py read FOLDER
    python -m scripts.verify_exports check-rlds FOLDER READ.json    what check_rlds.py read of the sample as RLDS

Of one episode a person has corrected instruction, outcome and caption. `write` writes the sample as RLDS, too, beside
the folder with "-rlds" behind its name. `read` opens the folder by `LeRobotDataset`, compares the texts of every step
with those in the Parquet files, renders a chat of every episode by lerobot's own resolvers, and compares all with what
`write` meant. It never uses the network.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

# Beside an export that `write` made: by episode what people say of it, and the subtask at each step.
EXPECTED_FILE = "expected.json"
_SPANS = (
    (0.0, 1.0, "reach for the thing"),
    (1.0, 2.05, "grasp it, gently"),
    (2.05, 100.0, "fulfil the rest – ü"),
)
# What a person says of the first episode.
_CORRECTIONS = {
    "instruction": "slide the red cup – ü",
    "caption": "the arm slides a cup",
    "outcome": "failure",
}
_CALL = {"type": "function", "function": {"name": "say", "arguments": {"text": "I have it"}}}


def write_folder(folder):
    """Export three episodes of the demo's sample with texts, and what lerobot has to read of them."""
    import ares
    from ares.annotation import Producer
    from ares_app.demo.run import DEMO_FOLDER

    with (
        tempfile.TemporaryDirectory() as scratch,
        ares.open(Path(scratch) / "workspace", create=True) as workspace,
    ):
        workspace.ingest(str(DEMO_FOLDER / "samples" / "video"), limit=3, quiet=True)
        log, episodes = workspace.stores.annotations, list(workspace.stores.tables.episodes.read())
        styles = ("subtask", "vqa", "speech")
        producers = {
            name: Producer(annotator=f"source_{name}", version="1", fills_segments=True) for name in styles
        }
        for producer in producers.values():
            log.add_producer(producer)
        for episode in episodes:
            log.append(make_annotations(episode, producers))
        corrected = next(episode for episode in episodes if episode.success)
        workspace.correct(corrected.episode_id, **_CORRECTIONS, person="Ada")
        workspace.sync()
        chosen = workspace.sets.create("texts", [episode.episode_id for episode in episodes], {})
        workspace.export(chosen, folder, format="lerobot", quiet=True)
        workspace.export(chosen, f"{folder}-rlds", format="rlds", quiet=True)
    write_whole(f"{folder}-whole")
    expected = {
        episode.episode_id: {
            "subtasks": expected_subtasks(episode.num_steps, episode.rate_hz),
            "instruction": _CORRECTIONS["instruction"] if episode is corrected else episode.instruction,
            "success": False if episode is corrected else episode.success,
            "caption": _CORRECTIONS["caption"] if episode is corrected else None,
        }
        for episode in episodes
    }
    (Path(folder) / EXPECTED_FILE).write_text(json.dumps(expected))


def write_whole(folder):
    """Export four episodes of the sample that lack nothing for imitation learning; `strict` refuses others."""
    import ares
    from ares_app.demo.run import DEMO_FOLDER, RLDS_RATE_HZ

    with tempfile.TemporaryDirectory() as scratch, ares.open(scratch, create=True) as workspace:
        workspace.ingest(DEMO_FOLDER / "samples" / "rlds", limit=4, rate_hz=RLDS_RATE_HZ, quiet=True)
        for name, format in (("files", "lerobot"), ("lance", "lerobot-lance")):
            report = workspace.export(
                workspace.episodes, Path(folder, name), format=format, strict=True, quiet=True
            )
            print(f"{format}: {report.episodes} episodes lack {', '.join(report.lacks) or 'nothing'}")


def make_annotations(episode, producers):
    """Subtasks until the end of an episode, a question about each camera with its answer, and a call of a tool."""
    from ares.annotation import Annotation

    end = episode.duration_seconds
    made = [
        ("subtask", (start, min(stop, end)), {"text": text, "style": "subtask", "author": "person"}, "")
        for start, stop, text in _SPANS
    ]
    for camera in episode.cameras:
        made += [
            ("vqa", (0.5, 0.5), {"text": text, "style": "vqa", "role": role}, camera.name)
            for role, text in (("user", "what is it?"), ("assistant", "a ball"))
        ]
    instant = {"column": "events", "timestamp": 1.5, "row": 0}
    made.append(("speech", (1.5, 1.5), {"text": "", "style": "", "tool_calls": [_CALL], **instant}, ""))
    return [
        Annotation(
            episode_id=episode.episode_id,
            name=f"source_{name}",
            value=value,
            maker_id=producers[name].maker_id,
            subject=episode.episode_id,
            start_seconds=span[0],
            stop_seconds=span[1],
            created="2026-01-01T00:00:00+00:00",
            camera=camera,
            part=str(number),
        )
        for number, (name, span, value, camera) in enumerate(made)
    ]


def expected_subtasks(count, rate_hz):
    """The subtask of each of `count` steps."""
    seconds = [step / rate_hz + 1e-4 for step in range(count)]
    return [next(text for start, stop, text in _SPANS if start <= second < stop) for second in seconds]


def read_folder(folder):
    """Open a folder with lerobot; returns what differs, one line each, and a line that says what was read."""
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    # The folder of this script has a tree.py, which would hide a library.
    sys.path.pop(0)
    import importlib.metadata
    import logging

    import pyarrow.parquet as pq

    logging.disable(logging.WARNING)  # of torchcodec, which needs libraries of FFmpeg
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/verified", root=folder, video_backend="pyav")
    stored = [
        row
        for file in sorted(Path(folder, "data").glob("*/*.parquet"))
        for row in pq.read_table(file).to_pylist()
    ]
    expected = Path(folder, EXPECTED_FILE)
    wanted = json.loads(expected.read_text()) if expected.exists() else {}
    differences, counts = [], {"persistent": 0, "events": 0, "rendered": 0, "corrected": 0}
    for episode in dataset.meta.episodes:
        about = wanted.get(episode["ares/episode_id"])
        subtasks = about["subtasks"] if about else None
        if about:
            tasks = {
                dataset[index]["task"]
                for index in (episode["dataset_from_index"], episode["dataset_to_index"] - 1)
            }
            said = {name: episode[f"ares/{name}"] for name in ("instruction", "success", "caption")}
            differences += compare_people(said, about, tasks, f"episode {episode['episode_index']}")
            counts["corrected"] += about["caption"] is not None
        for step, index in enumerate(range(episode["dataset_from_index"], episode["dataset_to_index"])):
            place = f"episode {episode['episode_index']}, step {step}"
            differences += compare_step(dataset, stored[index], index, place, counts)
            if (
                subtasks is not None
                and (found := active_subtask(dataset.hf_dataset[index])) != subtasks[step]
            ):
                differences.append(f"{place}: lerobot finds the subtask {found!r}, not {subtasks[step]!r}")
        counts["rendered"] += render_episode(dataset, episode, differences)
    version = importlib.metadata.version("lerobot")
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    return (
        differences,
        f"lerobot {version}: {dataset.num_episodes} episodes, {len(dataset)} steps; rows of texts: {told}",
    )


def compare_people(said, expected, tasks, place):
    """What differs of what people say of an episode: its columns, and the texts at its steps."""
    for name, value in said.items():
        if value != expected[name]:
            yield f"{place}: {name} is {value!r}, not {expected[name]!r}"
    if tasks != {expected["instruction"]}:
        yield f"{place}: the task is {sorted(tasks)!r}, not {expected['instruction']!r}"


def check_rlds(folder, read):
    """What TensorFlow read of the sample otherwise than people say it, one line each, and what was compared."""
    expected = json.loads(Path(folder, EXPECTED_FILE).read_text())
    episodes = json.loads(Path(read).read_text())
    differences = [] if len(episodes) == len(expected) else [f"TensorFlow reads {len(episodes)} episodes"]
    for episode in episodes:
        about = expected[episode["id"]]
        said = {"success": episode["success"] == 1.0, "caption": episode["caption"] or None}
        differences += compare_people(said, about, set(episode["language"]), f"episode {episode['id']}")
    corrected = sum(about["caption"] is not None for about in expected.values())
    return differences, f"TensorFlow: {len(episodes)} episodes, {corrected} corrected"


def compare_step(dataset, stored, index, place, counts):
    """What lerobot reads at a step, against the file; rows are counted."""
    row = dataset.hf_dataset[index]
    for name in ("persistent", "events"):
        column = f"language_{name}"
        texts = [{**one, "tool_calls": decode_calls(one["tool_calls"])} for one in stored.get(column) or ()]
        counts[name] += len(texts)
        if (row.get(column) or []) != texts:
            yield f"{place}: lerobot reads {row.get(column)!r} in {column}, the file has {texts!r}"


def decode_calls(calls):
    """Calls of tools, which files have as JSON texts."""
    return None if calls is None else [json.loads(call) if isinstance(call, str) else call for call in calls]


def active_subtask(row):
    """The subtask that lerobot finds at a step, "" for none."""
    from lerobot.datasets.language_render import active_at

    found = active_at(float(row["timestamp"]), persistent=row["language_persistent"], style="subtask")
    return found["content"] if found else ""


def render_episode(dataset, episode, differences):
    """Number of steps that lerobot renders as a chat of task and subtask; each has to name its own subtask."""
    from lerobot.configs.recipe import MessageTurn, TrainingRecipe
    from lerobot.datasets.language_render import render_sample

    turns = [
        MessageTurn(role="user", content="${task}", stream="high_level"),
        MessageTurn(
            role="assistant", content="${subtask}", stream="low_level", target=True, if_present="subtask"
        ),
    ]
    # Questions are asked about one camera at a time.
    camera = next(iter(dataset.meta.camera_keys), "none")
    questions = {
        name: f"emitted_at(t, style=vqa, role={role}, camera={camera})"
        for name, role in (("vqa", "assistant"), ("vqa_query", "user"))
    }
    recipe, rendered = TrainingRecipe(messages=turns, bindings=questions), 0
    for index in range(episode["dataset_from_index"], episode["dataset_to_index"]):
        row = dataset.hf_dataset[index]
        texts = {"persistent": row.get("language_persistent"), "events": row.get("language_events")}
        chat = render_sample(
            recipe=recipe, **texts, t=float(row["timestamp"]), sample_idx=index, task=episode["tasks"][0]
        )
        rendered += chat is not None
        if chat and chat["messages"][1]["content"] != active_subtask(row):
            differences.append(f"row {index}: the chat says {chat['messages'][1]['content']!r}")
    return rendered


def main():
    """Write or read; reading ends with 1 where anything differs."""
    parser = argparse.ArgumentParser(
        description="write a folder with texts by ARES, or read one with lerobot"
    )
    parser.add_argument("mode", choices=("write", "read", "check-rlds"))
    parser.add_argument("folder")
    parser.add_argument("read", nargs="?", help="for check-rlds: the file with what check_rlds.py printed")
    args = parser.parse_args()
    if args.mode == "write":
        write_folder(args.folder)
        return 0
    is_rlds = args.mode == "check-rlds"
    differences, summary = check_rlds(args.folder, args.read) if is_rlds else read_folder(args.folder)
    print(summary)
    for line in differences[:20]:
        print(line)
    print(
        f"not equal: {len(differences)} differences"
        if differences
        else "verified: every text is as it was written"
    )
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
