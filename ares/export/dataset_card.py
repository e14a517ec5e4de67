"""The README of an export: a dataset card with sources, licences, grades, findings, and how to make it again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from ares.contract import DatasetKey, read_contracts
from ares.store import batched, ids_filter

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


CARD_FILE = "README.md"
# Licences that ask for the same licence of whatever contains the data, those that go together with any of these, and
# words of others that forbid something.
_SHARE_ALIKE = ("-sa-", "gpl-", "odbl")
_PERMISSIVE = (
    "mit",
    "apache-",
    "bsd-",
    "cc0-",
    "cc-by-1",
    "cc-by-2",
    "cc-by-3",
    "cc-by-4",
    "odc-by",
    "unlicense",
)
_LIMITS = {
    "-nc-": "not for commercial use",
    "-nd-": "changed copies may not be shared, and an export is a changed copy",
}
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
_FINDINGS, _SUCCESS = "quality_codes", "success"
_BATCH = 10_000
_TABLE_TEXT = (
    "`manifest.episodes.jsonl` has a line for each episode here: `path` and `index` say where it is, `episode_id` "
    "what ARES calls it, `dataset`, `version`, `split` and `key` where it was in its source, and `content_hash` "
    "what it contained. Labels are found by it again, however episodes are numbered."
)
_COMMANDS = """\
```sh
ares set lock {label} {name}.card.json --export THIS_FOLDER -w WORKSPACE
ares set rebuild {name}.card.json --sources FOLDERS --export NEW_FOLDER -w NEW_WORKSPACE
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


class StatedSource(NamedTuple):
    """One dataset of an export, and what it states.

    Attributes:
        dataset: What the export has of it.
        licences: What its files or its spec say, one for each different licence; () where nothing does.
        consents: The same for the consent of people.
    """

    dataset: ExportedDataset
    licences: tuple[str, ...]
    consents: tuple[str, ...]


def write_dataset_card(
    folder: Path,
    stores: Stores,
    manifest: Mapping[str, Json],
    datasets: Sequence[ExportedDataset],
    episode_ids: Iterable[str],
    grade_columns: tuple[str, str],
) -> None:
    """Write the card of an export; nothing in it depends on when and where the export was made.

    Args:
        folder: The export.
        stores: Stores of the workspace.
        manifest: The content of its manifest.
        datasets: What it has of each dataset.
        episode_ids: The episodes that it has.
        grade_columns: The columns of grades of captions, and of what their judge is.
    """
    sources = []
    for dataset in sorted(datasets):
        facts = read_contracts(stores.annotations, dataset.key).source
        stated = (cast("list[dict[str, str]]", facts.get(name, [])) for name in ("licences", "consents"))
        sources.append(StatedSource(dataset, *(tuple(fact["value"] for fact in part) for part in stated)))
    selection, counts = (cast("dict[str, Json]", manifest[name]) for name in ("set", "counts"))
    hours, name = sum(dataset.seconds for dataset in datasets) / 3600, selection["name"]
    label = f"{name}@{selection['version']}"
    columns = _count_columns(stores, episode_ids, (*grade_columns, _SUCCESS, _FINDINGS))
    sections = [
        "\n".join(("---", *_front_matter(sources, str(manifest["format"]), counts), "---")),
        f"# {label}",
        f"{counts['episodes']} episodes, {counts['frames']} steps, {hours:.3g} hours, {counts['tasks']} tasks, as "
        f"{manifest['format']}; exported by ARES {manifest['ares']}. `manifest.json` has all numbers and hashes.",
        "## Sources",
        "| dataset | format | version | episodes | hours | licence | consent |\n|---|---|---|---|---|---|---|\n"
        + "\n".join(
            f"| {key.dataset} | {key.format} | {key.version or '-'} | {episodes} | {seconds / 3600:.3g} "
            f"| {', '.join(licences) or _UNKNOWN} | {' '.join(', '.join(consents).split()) or _UNKNOWN} |"
            for (key, episodes, seconds), licences, consents in sources
        ),
        *describe_licence_conflicts({source.dataset.key.dataset: source.licences for source in sources}),
        *_describe_quality(manifest, columns),
        "## What the export changed",
        *_describe_changes(manifest, counts),
        "## Which episode is which",
        _TABLE_TEXT,
        "## To make it again",
        _COMMANDS.format(label=label, name=name),
    ]
    (folder / CARD_FILE).write_text("\n\n".join(sections) + "\n", encoding="utf-8")


def join_dataset_cards(cards: Sequence[str]) -> str:
    """The card of an export that was appended to: the first one, then the others without what the Hub reads.

    Args:
        cards: The cards of the parts, at least one; each is text of `write_dataset_card`.
    """
    heads, bodies = zip(*(card.removeprefix("---\n").split("\n---\n", 1) for card in cards), strict=True)
    named = [[line for line in head.splitlines() if line.startswith("license")] for head in heads]
    rest = "\n".join(line for line in heads[0].splitlines() if not line.startswith("license"))
    # The identifier that the Hub knows, or the names beside "other".
    names = dict.fromkeys(name for lines in named for name in _licence_names(lines))
    first = "\n".join(named[0])
    if len({tuple(lines) for lines in named}) > 1:
        first = f"license: {_OTHER}\nlicense_name: {json.dumps('; '.join(names), ensure_ascii=False)}"
    return "\n".join(
        (f"---\n{first}\n{rest}\n---", bodies[0], *(f"# Appended\n{body}" for body in bodies[1:]))
    )


def _licence_names(lines: Sequence[str]) -> list[str]:
    """The licences that two lines of YAML name: an identifier, or "other" and their names."""
    value = lines[-1].partition(": ")[2]
    return str(json.loads(value)).split("; ") if len(lines) > 1 else [value]


def _front_matter(sources: Sequence[StatedSource], format: str, counts: Mapping[str, Json]) -> Iterator[str]:
    """The lines of the YAML that the Hugging Face Hub reads."""
    licences = sorted({licence for source in sources for licence in source.licences or (_UNKNOWN,)})
    is_known = len(licences) == 1 and licences[0].startswith((_UNKNOWN, *_HUB_LICENCES))
    yield f"license: {licences[0] if is_known else _OTHER}"
    if not is_known:
        yield f"license_name: {json.dumps('; '.join(licences), ensure_ascii=False)}"
    yield "task_categories:\n- robotics\ntags:\n- robotics"
    if format.startswith("lerobot"):
        yield "- LeRobot"
        folders = [
            str(cast("dict[str, Json]", entry)["path"]) for entry in cast("list[Json]", counts["datasets"])
        ]
        prefixes = {folder: "" if folder == "." else f"{folder}/" for folder in folders}
        lines = (
            f"- config_name: {json.dumps('default' if folder == '.' else folder)}\n"
            f"  data_files: {json.dumps(f'{prefix}data/*/*.parquet')}"
            for folder, prefix in prefixes.items()
        )
        yield "\n".join(("configs:", *lines))


def describe_licence_conflicts(licences: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What the licences of the sources of one export mean together, a paragraph for each thing to know.

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
    alike = next((licence for licence in stated if any(part in f"{licence}-" for part in _SHARE_ALIKE)), None)
    others = [licence for licence in stated if licence != alike and not licence.startswith(_PERMISSIVE)]
    if alike and others:
        yield (
            f"**Licences conflict**: {alike} asks for the same licence of the whole, which {', '.join(others)} "
            "does not allow."
        )
    for part, meaning in _LIMITS.items():
        if limited := [licence for licence in stated if part in licence]:
            yield f"**{', '.join(limited)}**: {meaning}."


def _count_columns(
    stores: Stores, episode_ids: Iterable[str], names: Sequence[str]
) -> dict[str, Counter[str]]:
    """How many episodes have each value of the columns that a card shows; of a list each item counts."""
    columns = [name for name in names if name in stores.tables.episodes.columns()]
    counts = {name: Counter[str]() for name in names}
    for ids in batched(sorted(episode_ids), _BATCH):
        for row in (
            stores.tables.episodes.read_columns(columns, ids_filter(ids)).to_pylist() if columns else ()
        ):
            for name, value in row.items():
                values = value if isinstance(value, list) else [value]
                counts[name].update(str(item) for item in values if item not in (None, ""))
    return counts


def _describe_quality(
    manifest: Mapping[str, Json], columns: Mapping[str, Mapping[str, int]]
) -> Iterator[str]:
    """Grades with what people certify of them, outcomes, and what checks found."""
    certificate, states = manifest.get("certificate"), cast("dict[str, int]", manifest.get("grade_trust", {}))
    yield "## Captions and grades"
    if isinstance(certificate, Mapping):
        yield f"People certify: {certificate['says']}."
        basis = f"It rests on what `{certificate['basis_hash']}` is the hash of"
        yield f"{basis}, and was made {certificate['created']}."
        for reason in cast("Sequence[str]", certificate["void"]):
            yield f"**VOID**: {reason}."
    else:
        yield "Not certified: no person's answers vouch for the captions of this set."
    if states:
        yield f"The judge of their captions is: {', '.join(f'{count} {state}' for state, count in states.items())}."
    titles = ("Grades", "Their judge is", "Success")
    for title, values in zip(titles, columns.values(), strict=False):
        if values:
            yield f"{title}: {', '.join(f'{count} {value}' for value, count in sorted(values.items()))}."
    yield "## Findings"
    codes = columns[_FINDINGS]
    listed = "\n".join(f"- {code}: {count} episodes" for code, count in sorted(codes.items()))
    yield listed or "The checks of signals found nothing."


def _describe_changes(manifest: Mapping[str, Json], counts: Mapping[str, Json]) -> Iterator[str]:
    """The merge plan, what was left out, and what was written otherwise than it was recorded."""
    options = cast("dict[str, Json]", manifest["export"])
    if plan := options.get("plan"):
        yield f"The sources became one dataset by `{plan}`."
    written = [
        f"`{name}`: {value}" for name, value in options.items() if value and name not in ("plan", "format")
    ]
    yield f"Options: {'; '.join(written)}."
    lines = [f"- left out: {line}" for line in dict.fromkeys(cast("list[str]", counts["left_out"]))]
    for change in cast("list[dict[str, Json]]", counts["changed"]):
        numbers = ", ".join(f"{name} {value}" for name, value in change.items() if name != "reason")
        lines.append(f"- changed: {change.get('reason', '')} ({numbers})")
    for reason, count in cast("dict[str, Json]", counts["reencoded"]).items():
        lines.append(f"- encoded anew: {count} videos: {reason}")
    yield "\n".join(lines) or "Nothing else was changed or left out."
