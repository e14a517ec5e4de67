"""The README of an export: a dataset card with sources, licences, grades, findings, and how to make it again."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ares.console import count_of
from ares.contract import DatasetKey, read_contracts
from ares.formats import INDEX_DTYPES, INFO_PATH
from ares.store import batched, ids_filter, keep_newest_annotations, person_of

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


CARD_FILE = "README.md"
_UNKNOWN, _OTHER = "unknown", "other"
# Identifiers that the Hub knows begin with one of these; others stand as a name beside "other".
_HUB_LICENCES = (
    "cc-",
    "cc0-",
    "apache-",
    "mit",
    "bsd-",
    "agpl-",
    "lgpl-",
    "gpl-",
    "odc-",
    "odbl",
    "unlicense",
)
_FINDINGS, _SUCCESS, _GRADE, _REFUTED = "quality_codes", "success", "grade", "grade_refuted"
_BATCH = 10_000
_TABLE_TEXT = (
    "`manifest.episodes.jsonl` has a line for each episode here: `path` and `index` say where it is, `episode_id` "
    "what ARES calls it, `dataset`, `version`, `split` and `key` where it was in its source, and `content_hash` "
    "what it contained. Labels are found by it again, however episodes are numbered."
)
_COMMANDS = """\
```sh
ares set lock {label} {file} --export THIS_FOLDER -w WORKSPACE
ares set rebuild {file} FOLDERS --export NEW_FOLDER -w NEW_WORKSPACE
```"""


class ExportedDataset(NamedTuple):
    """What an export has of one dataset.

    Attributes:
        key: The dataset.
        episodes: Episodes, or spans of episodes, that were written.
        seconds: Their length together.
    """

    key: DatasetKey
    episodes: int
    seconds: float


def collect_card_facts(
    stores: Stores,
    datasets: Sequence[ExportedDataset],
    episode_ids: Iterable[str],
) -> dict[str, Json]:
    """What a card says that the rest of a manifest does not: sources, and how many episodes have which values.

    Args:
        stores: Stores of the workspace.
        datasets: What the export has of each dataset.
        episode_ids: The episodes that it has.
    """
    sources: dict[str, Json] = {}
    for key, episodes, seconds in sorted(datasets):
        facts = read_contracts(stores.annotations, key).source
        stated: dict[str, Json] = {
            name: [fact["value"] for fact in cast("list[dict[str, str]]", facts.get(name, []))]
            for name in ("licences", "consents")
        }
        sources[" ".join(key)] = {**key._asdict(), "episodes": episodes, "seconds": seconds, **stated}
    names = (_GRADE, _REFUTED, _SUCCESS, _FINDINGS)
    corrected = _count_corrections(stores, episode_ids := sorted(episode_ids))
    columns = [name for name in names if name in stores.tables.episodes.columns()]
    counts = {name: Counter[str]() for name in names}
    for ids in batched(episode_ids, _BATCH) if columns else ():
        for row in stores.tables.episodes.read_columns(columns, ids_filter(ids)).to_pylist():
            for name, value in row.items():
                values = value if isinstance(value, list) else [value]
                counts[name].update(str(item) for item in values if item not in (None, ""))
    titles = {"Grades": _GRADE, "Success": _SUCCESS, "Findings": _FINDINGS}
    return {
        "sources": sources,
        "values": {title: dict(counts[name]) for title, name in titles.items()},
        "refuted": counts[_REFUTED].total(),
        **corrected,
    }


def _count_corrections(stores: Stores, episode_ids: Sequence[str]) -> dict[str, Json]:
    """How many instructions and outcomes people corrected, and who; nothing where none is."""
    existing, log = stores.tables.episodes.columns(), stores.annotations
    labels = {"instruction_original": "instruction_label", "success_source_original": "success_label"}
    columns = [name for name in labels if name in existing]
    counts, people = Counter[str](), set[str]()
    for ids in batched(episode_ids, _BATCH) if columns else ():
        rows = stores.tables.episodes.read_columns(["episode_id", *columns], ids_filter(ids)).to_pylist()
        for name in columns:
            corrected = [row["episode_id"] for row in rows if row[name] is not None]
            counts[name.partition("_")[0]] += len(corrected)
            labelled = log.find_annotations(corrected, [labels[name]]) if corrected else []
            newest = keep_newest_annotations(labelled)
            people.update(item.maker_id for item in newest if not item.is_withdrawn)
    producers = log.producers() if people else {}
    names = sorted({person_of(producers[maker_id]) for maker_id in people})
    listed: list[Json] = [*names]
    return {"corrected": {**counts, "people": listed}} if people else {}


def write_dataset_card(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the card of an export.

    Nothing in it depends on when and where the export was made.

    Args:
        folder: The export.
        manifest: The content of its manifest; its `card` is that of `collect_card_facts`.
    """
    counts = manifest["counts"]
    by_key = dict(sorted(manifest["card"]["sources"].items()))
    sources, names = list(by_key.values()), Counter(source["dataset"] for source in by_key.values())
    # Datasets of one name, such as two versions of it, are distinguished by their keys.
    licences = {
        source["dataset"] if names[source["dataset"]] == 1 else key: source["licences"]
        for key, source in by_key.items()
    }
    name = manifest["set"]["name"]
    label, seconds = f"{name}@{manifest['set']['version']}", sum(source["seconds"] for source in sources)
    length = f"{seconds / 3600:.3g} hours" if seconds >= 3600 else f"{seconds / 60:.3g} minutes"
    sections = [
        "\n".join(("---", *_front_matter(sources, str(manifest["format"]), counts), "---")),
        f"# {label}",
        f"{count_of(counts['episodes'], 'episode')}, {count_of(counts['frames'], 'step')}, {length}, "
        f"{count_of(counts['tasks'], 'task')}, as {manifest['format']}; "
        f"exported by ARES {manifest['ares']}. `manifest.json` has all numbers and hashes.",
        "## Sources",
        "| dataset | format | version | episodes | hours | licence | consent |\n|---|---|---|---|---|---|---|\n"
        + "\n".join(
            f"| {source['dataset']} | {source['format']} | {source['version'] or '-'} | {source['episodes']} "
            f"| {source['seconds'] / 3600:.3g} | {', '.join(source['licences']) or _UNKNOWN} "
            f"| {' '.join(', '.join(source['consents']).split()) or _UNKNOWN} |"
            for source in sources
        ),
        *describe_licences(licences),
        *_describe_inputs(folder, manifest),
        *_describe_quality(manifest),
        "## What the export changed",
        *_describe_changes(manifest),
        "## Which episode is which",
        _TABLE_TEXT,
        "## To make it again",
        _COMMANDS.format(label=shlex.quote(label), file=shlex.quote(f"{name.replace('/', '-')}.card.json")),
    ]
    (folder / CARD_FILE).write_text("\n\n".join(sections) + "\n", encoding="utf-8")


def _front_matter(
    sources: Sequence[Mapping[str, Any]], format: str, counts: Mapping[str, Any]
) -> Iterator[str]:
    """The lines of the YAML that the Hugging Face Hub reads."""
    licences = sorted({licence for source in sources for licence in source["licences"] or (_UNKNOWN,)})
    is_known = len(licences) == 1 and licences[0].startswith((_UNKNOWN, *_HUB_LICENCES))
    yield f"license: {licences[0] if is_known else _OTHER}"
    if not is_known:
        yield f"license_name: {json.dumps('; '.join(licences), ensure_ascii=False)}"
    yield "task_categories:\n- robotics\ntags:\n- robotics"
    if format.startswith("lerobot"):
        yield "- LeRobot"
        folders = [str(entry["path"]) for entry in counts["datasets"]]
        prefixes = {folder: "" if folder == "." else f"{folder}/" for folder in folders}
        lines = (
            f"- config_name: {json.dumps('default' if folder == '.' else folder)}\n"
            f"  data_files: {json.dumps(f'{prefix}data/*/*.parquet')}"
            for folder, prefix in prefixes.items()
        )
        yield "\n".join(("configs:", *lines))


def describe_licences(licences: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What is to be known of the licences of the sources of one export, a paragraph for each.

    Args:
        licences: The licences of each dataset by its name; empty where nothing states one.
    """
    stated = sorted({licence for names in licences.values() for licence in names})
    unknown = [name for name, names in licences.items() if not names]
    if unknown:
        yield f"**Licence not known** of {', '.join(unknown)}: nothing may be shared that nobody allowed."
    if several := [name for name, names in licences.items() if len(names) > 1]:
        yield f"**Files of one dataset name different licences**: {', '.join(several)}; a spec decides (`licence:`)."
    if len(stated) > 1 and len(licences) > 1:
        holders = (
            f"{licence} ({', '.join(name for name, names in licences.items() if licence in names)})"
            for licence in stated
        )
        yield f"**Sources have different licences**: {'; '.join(holders)}. Each holds for the episodes of its dataset."


def _describe_inputs(folder: Path, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Which signals and cameras of a LeRobot dataset a policy reads, and which it does not."""
    if not str(manifest["format"]).startswith("lerobot"):
        return
    yield "## What a policy reads"
    yield "A policy of LeRobot reads what is called `observation` or `action`, and no other column."
    for entry in manifest["counts"]["datasets"]:
        features = json.loads((folder / entry["path"] / INFO_PATH).read_text(encoding="utf-8"))["features"]
        read = [name for name in features if name.startswith(("observation", "action"))]
        others = [name for name in features if name not in read and name not in INDEX_DTYPES]
        label = "" if entry["path"] == "." else f"{entry['path']}: "
        more = f"; not read: {', '.join(others)}" if others else ""
        yield f"{label}{', '.join(read) or 'nothing'}{more}."


def _describe_quality(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What people measured of the captions, grades, outcomes, and what checks found."""
    yield "## Captions and grades"
    for dataset, shares in manifest.get("measured", {}).items():
        for share in shares.values():
            yield f"{dataset}: {share['says']}."
    if not manifest.get("measured"):
        yield "Not measured: nobody has answered how many of the captions here are true."
    if refuted := manifest["card"]["refuted"]:
        yield f"**Graded by a refuted judge, which does not count**: captions of {count_of(refuted, 'episode')}."
    if corrected := manifest["card"].get("corrected"):
        parts = [
            f"{count_of(corrected[name], word)}"
            for name, word in (("instruction", "instruction"), ("success", "outcome"))
            if corrected.get(name)
        ]
        people = count_of(len(corrected["people"]), "person", "people")
        yield f"{' and '.join(parts)} corrected by {people}."
    for title, counts in manifest["card"]["values"].items():
        listed = sorted(counts.items())
        if title == "Findings":
            yield "## Findings"
            lines = "\n".join(f"- {code}: {count_of(count, 'episode')}" for code, count in listed)
            yield lines or "The checks of signals found nothing."
        elif counts:
            words = (f"{count} {value.replace('_', ' ')}" for value, count in listed)
            yield f"{title}: {', '.join(words)}."


def _describe_changes(manifest: Mapping[str, Any]) -> Iterator[str]:
    """The merge plan, what was left out, and what was written otherwise than it was recorded."""
    options, counts = manifest["export"], manifest["counts"]
    if plan := options.get("plan"):
        yield f"The sources became one dataset by `{plan}`."
    written = [
        f"`{name}`: {value}" for name, value in options.items() if value and name not in ("plan", "format")
    ]
    yield f"Options: {'; '.join(written)}."
    lines = [f"- lacks: {line}" for line in counts.get("lacks", ())]
    lines += [f"- left out: {line}" for line in dict.fromkeys(counts["left_out"])]
    for change in counts["changed"]:
        numbers = ", ".join(f"{name} {value}" for name, value in change.items() if name != "reason")
        lines.append(f"- changed: {change.get('reason', '')} ({numbers})")
    for reason, count in counts["reencoded"].items():
        lines.append(f"- encoded again: {count_of(count, 'video')}: {reason}")
    yield "\n".join(lines) or "Nothing else was changed or left out."
