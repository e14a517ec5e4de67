"""Labels, cards, locks and answers as a stranger may have bent them: types, depth, sizes, names, hashes, kinds."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from ares import open as open_workspace
from ares.annotation import Annotation, Column, Producer
from ares.review import Answer
from tests.ingest.test_exported_again import CAPTIONER, JUDGE, make_caption, write_robomimic
from tests.ingesting import ingest_paths
from tests.torture.mutations import ANY_BYTES, WRONG_VALUES, change_json

GRADER = Producer(
    annotator="grade", version="1", model="judge", kind="model", subject_kind="annotation", after=("caption",),
    columns=tuple(Column(name=name, type="string", meaning="") for name in ("grade", "grade_verdicts")),
)  # fmt: skip


@dataclass(frozen=True)
class GoodFiles:
    """What is bent.

    Attributes:
        source: The dataset.
        made: The workspace that wrote the files.
        workspace: Another one with the dataset alone.
        card: The card of its set.
        labels: Its labels.
        answers: A file of answers.
        answered: An episode with answers.
    """

    source: Path
    made: Path
    workspace: Path
    card: Path
    labels: Path
    answers: Path
    answered: str

    def copy_to(self, folder: Path) -> Path:
        """Copy card and labels; returns the card."""
        shutil.copy(self.labels, folder)
        return Path(shutil.copy(self.card, folder))


def make_good_files(folder: Path) -> GoodFiles:
    """Three episodes with captions, ratings, grades, answers of two people, a tag, a note, values and a pin."""
    source = folder / "data" / "demo.hdf5"
    source.parent.mkdir()
    write_robomimic(source)
    with open_workspace(str(folder / "made"), create=True) as workspace:
        stores = workspace.stores
        ingest_paths(stores, [str(source)], quiet=True)
        rows = sorted(stores.tables.episodes.read_columns(["episode_id", "num_steps"]).to_pylist(), key=str)
        captions = [make_caption(row["episode_id"], row["num_steps"]) for row in rows]
        for producer, value in (
            (CAPTIONER, None),
            (JUDGE, {"rating": "good"}),
            (GRADER, {"grade": "acceptable"}),
        ):
            stores.annotations.add_producer(producer)
            stores.annotations.append(
                [caption if value is None else _about(caption, producer, value) for caption in captions]
            )
        workspace.sync()
        ids = [row["episode_id"] for row in rows]
        for question, subject, kind, verdict, person in (
            ("success", ids[0], "episode", "success", "Ada"),
            ("success", ids[1], "episode", "failure", "Ben"),
            ("acceptable", captions[0].annotation_id, "annotation", "met", "Ada"),
            ("instruction", ids[0], "episode", "unmet", "Ada"),
        ):
            workspace.review.give(
                Answer(
                    question=question,
                    subject_id=subject,
                    subject_kind=kind,
                    verdict=verdict,
                    person=person,
                    text="",
                )
            )
        workspace.tag("good", ids=ids[:1])
        workspace.note("look again", ids=ids[1:2])
        workspace.set_values("my_score", {ids[0]: 0.5, ids[1]: 1.5})
        workspace.sets.create("all", ids)
        workspace.use(caption=CAPTIONER.maker_id)
        card = folder / "all.card.json"
        workspace.sets["all"].write_lock(card)
        workspace.review.export_file(folder / "answers.jsonl")
    with open_workspace(str(folder / "there"), create=True) as other:
        ingest_paths(other.stores, [str(source)], quiet=True)
    return GoodFiles(
        source=source, made=folder / "made", workspace=folder / "there", card=card,
        labels=folder / "all.card.labels.jsonl", answers=folder / "answers.jsonl", answered=ids[0],
    )  # fmt: skip


def _about(caption: Annotation, producer: Producer, value: dict[str, Any]) -> Annotation:
    return Annotation(
        episode_id=caption.episode_id, name=producer.annotator, value=value, maker_id=producer.maker_id,
        subject=caption.annotation_id, start_seconds=0.0, stop_seconds=1.0, created=caption.created,
    )  # fmt: skip


def describe_log(workspace: Path) -> tuple[int, dict[str, Any]]:
    """The end of the log of a workspace, its producers and all its documents but what caches of the tables keep."""
    if not (workspace / "workspace.json").exists():
        return 0, {}
    with open_workspace(str(workspace)) as opened:
        log = opened.stores.annotations
        documents: dict[str, Any] = {kind: dict(log.find_documents(kind)) for kind in log.collections()}
        producers = {id: repr(producer) for id, producer in log.producers().items()}
        return log.last_sequence(), documents | ({"makers": producers} if producers else {})


_TEXTS = [value for value in WRONG_VALUES if isinstance(value, str)]


def _bend_line(line: str, chance: random.Random) -> str:
    """A line of labels, of which a value is bent; of an annotation more often in its body."""
    document = json.loads(line)
    if "annotation" in document and chance.random() < 0.7:
        document["annotation"][5] = change_json(document["annotation"][5].encode(), chance).decode()
        return json.dumps(document)
    return change_json(line.encode(), chance).decode()


def _foreign_document(lines: list[str], chance: random.Random) -> None:
    kinds = ("actions", "action_members", "sets", "set_members", "failures", "purges", "tombstones", "jobs", "pins",
             "certificates", "foreign_answers", "review_seats", "model_replies", "views")  # fmt: skip
    content = chance.choice(
        (*WRONG_VALUES, {"number": "x", "kind": "remove"}, {"precision": 1.0, "items": []})
    )
    place = chance.randrange(len(lines) + 1)
    lines.insert(place, json.dumps({"document": [chance.choice(kinds), chance.choice(_TEXTS), content]}))


def _foreign_producer(lines: list[str], chance: random.Random) -> None:
    """A producer that takes the columns of others, or speaks for a person."""
    place = next(n for n, line in enumerate(lines) if '"maker"' in line[:10])
    producer = json.loads(lines[place])["maker"]
    producer |= {
        "annotator": chance.choice(("caption", "zzz", *_TEXTS)),
        "kind": chance.choice(("person", "model", "god")),
        "columns": [
            {"name": chance.choice(("episode_id", "dataset", "tags", "reviewed", "success", "a b", "select", *_TEXTS)),
             "type": chance.choice(("bool", "int64", "string", "list<string>", "blob")), "meaning": "",
             "rollup": chance.choice(("", "sum", "min", "xx"))}
        ],
    }  # fmt: skip
    lines.insert(place, json.dumps({"maker": producer}))


def _foreign_person(lines: list[str], chance: random.Random) -> None:
    """An answer whose person, question or verdict is another one, with the right id of its annotation."""
    places = [n for n, line in enumerate(lines) if '\\"answer\\"' in line]
    place = chance.choice(places)
    document = json.loads(lines[place])
    body = json.loads(document["annotation"][5])
    answer = body["value"]["answer"]
    field = chance.choice(list(answer))
    answer[field] = chance.choice((*WRONG_VALUES[:8], *_TEXTS, "Root"))
    if chance.random() < 0.3:
        body["value"]["rulings"] = chance.choice(
            ([{"criterion": 1}], "x", [[]], [{"verdict": "MAYBE", "criterion": "A"}])
        )
    document["annotation"][5] = json.dumps(body)
    lines[place] = json.dumps(document)


def _swap_ids(lines: list[str], chance: random.Random) -> None:
    places = [n for n, line in enumerate(lines) if line.startswith('{"annotation"')]
    first, second = chance.sample(places, 2)
    one, two = json.loads(lines[first]), json.loads(lines[second])
    field = chance.randrange(4)
    one["annotation"][field] = two["annotation"][field] if chance.random() < 0.5 else "f" * 16
    lines[first] = json.dumps(one)


def _speak_for_people(lines: list[str], chance: random.Random) -> None:
    """A grade of a model that says that a person gave its verdicts."""
    place = next(n for n, line in enumerate(lines) if '"grade"' in line and line.startswith('{"annotation"'))
    document = json.loads(lines[place])
    body = json.loads(document["annotation"][5])
    body["value"] |= chance.choice(
        ({"grade_verdicts": "VERB=MET(person)"}, {"rulings": [{"source": "person"}]})
    )
    document["annotation"][5] = json.dumps(body)
    lines[place] = json.dumps(document)


def _bend_labels(text: str, chance: random.Random) -> tuple[str, bytes]:
    """Labels with one to three faults."""
    lines = text.splitlines()
    ways: list[Callable[[list[str], random.Random], None]] = [
        _foreign_document, _foreign_producer, _foreign_person, _swap_ids, _speak_for_people,
    ]  # fmt: skip
    way = chance.choice(("line", "line", "line", "made", "made", "made", "bytes", "order"))
    if way == "bytes":
        return _bend_bytes(text.encode(), chance)
    if way == "line":
        for place in chance.sample(range(len(lines)), chance.randint(1, 2)):
            lines[place] = _bend_line(lines[place], chance)
    elif way == "made":
        made = chance.choice(ways)
        made(lines, chance)
        way = made.__name__
    else:
        lines.reverse()
    return way, ("\n".join(lines) + "\n").encode()


def _bend_bytes(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    """A file with a very deep document, a number of a million digits, NaN or a key twice; an empty or damaged one."""
    odd = {"deep": b"[" * 200_000, "digits": b"9" * 1_000_000, "nan": b"NaN"}
    way = chance.choice((*odd, "twice", "empty", "damaged", "damaged", "damaged"))
    lines = content.splitlines(keepends=True)
    place = chance.randrange(len(lines))
    if way in odd:
        lines.insert(place, b'{"columns": ' + odd[way] + b"}\n")
    elif way == "twice":
        lines[place] = lines[place].replace(b"{", b'{"name": 1, "name": 2, ', 1)
    elif way == "damaged":
        return way, chance.choice(ANY_BYTES)(content, chance)
    return way, b"" if way == "empty" else b"".join(lines)


def _bend(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    """A document, or one line of documents, with other values; or other bytes."""
    if chance.random() < 0.75:
        return "values", change_json(content, chance)
    return _bend_bytes(content, chance)


@dataclass(frozen=True)
class HostileFile:
    """A bent file.

    Attributes:
        kind: "labels", "card", "lock" or "answers": how it is given to ARES.
        path: The file.
        what: What was bent.
    """

    kind: str
    path: Path
    what: str


def write_card(card: Path, folder: Path, labels: str | bytes) -> Path:
    """A card in a folder, with other labels and their right hash, so that they are read."""
    document, content = json.loads(card.read_text()), labels.encode() if isinstance(labels, str) else labels
    (folder / document["labels"]["file"]).write_bytes(content)
    count = content.count(b'{"annotation"')
    document["labels"] |= {"sha256": sha256(content).hexdigest(), "annotations": count}
    (folder / card.name).write_text(json.dumps(document))
    return folder / card.name


def make_hostile_file(good: GoodFiles, folder: Path, seed: int) -> HostileFile:
    """A bent file in a folder."""
    chance = random.Random(f"hostile {seed}")
    kind = ("labels", "card", "labels", "card", "lock", "answers")[seed % 6]
    if kind == "labels":
        what, content = _bend_labels(good.labels.read_text(), chance)
        return HostileFile(kind=kind, path=write_card(good.card, folder, content), what=what)
    if kind == "answers":
        return _write(folder / "bent.jsonl", kind, *_bend(good.answers.read_bytes(), chance))
    card = good.copy_to(folder)
    document = json.loads(card.read_text())
    if kind == "lock":
        names = ("name", "version", "created", "recipe", "episodes", "ids_hash", "ids")
        document = {name: document[name] for name in names}
    return _write(card, kind, *_bend(json.dumps(document, indent=1).encode(), chance))


def _write(path: Path, kind: str, what: str, content: bytes) -> HostileFile:
    path.write_bytes(content)
    return HostileFile(kind=kind, path=path, what=what)
