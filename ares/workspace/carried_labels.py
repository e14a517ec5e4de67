"""Labels that travel with a set: written to a file, checked as a whole, given to episodes of the same content."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ares.annotation import Annotation, ColumnType, Producer, make_segment_id
from ares.curation import (
    SelectedEpisodes,
    add_note,
    add_tag,
    check_note,
    remove_episodes,
    set_values,
)
from ares.episode import Json
from ares.errors import AresError, RequestError, SourceError, StoreError
from ares.input import read_lines
from ares.jobs import EpisodeSelection
from ares.names import check_name
from ares.review import (
    PERSON_ANNOTATORS,
    PERSON_COLUMNS,
    person_settings,
    read_answer,
)
from ares.rubric import CONTROL, names_people, read_controls
from ares.settings import user_name
from ares.store import (
    NOTES,
    TAGS,
    ForeignAnswer,
    SqliteAnnotationStore,
    arrow_type,
    batched,
    check_people,
    count_uncounted_answers,
    declared_columns,
    episode_schema,
    file_origin,
    find_unshowable_values,
    in_condition,
    keep_foreign_answers,
    trust_answers,
    type_mismatch,
    with_known_columns,
)
from ares.workspace.answer_rows import answer_from_row
from ares.workspace.label_lines import (
    PINS,
    EpisodeForm,
    is_drawing,
    parse_annotation,
    parse_line,
    refuse_labels,
)

if TYPE_CHECKING:
    from ares.store import Stores


# Lines and annotations that are read at once; different tags, notes and columns of people that a file may have.
_PAGE, _MOST_TEXTS = 10_000, 1_000
_EPISODES = "card_episodes"
# Faults of reading values that nothing has checked.
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AresError)


@dataclass(slots=True)
class StagedLabels:
    """The labels of a file, read as a whole and found to be in order; nothing of them is stored yet.

    Attributes:
        origin: The file, see `file_origin`.
        log: Its annotations and episodes, in a separate file.
        columns: Types by name of the columns of episodes.
        producers: Its producers by id.
        documents: Its documents that are taken, by kind and key.
        removed: Episodes that were removed.
        people: Names of the people that it has answers of.
        annotations: How many annotations it has.
    """

    origin: str
    log: SqliteAnnotationStore
    columns: dict[str, str] = field(default_factory=dict)
    producers: dict[str, Producer] = field(default_factory=dict)
    documents: dict[str, dict[str, Json]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    people: set[str] = field(default_factory=set)
    annotations: int = 0

    def episodes(self) -> Iterator[EpisodeForm]:
        """Its episodes."""
        for _, document in self.log.find_documents(_EPISODES):
            yield EpisodeForm.model_validate(document)

    def pages(self) -> Iterator[list[Annotation]]:
        """Its annotations, in their order."""
        after = 0
        while entries := self.log.read(after, _PAGE):
            after = entries[-1].sequence
            yield [entry.annotation for entry in entries]


@contextmanager
def stage_labels(
    stores: Stores, path: Path, origin: str = "", trust_answers_of: Collection[str] = ()
) -> Iterator[StagedLabels]:
    """Read a file of labels as a whole and check it, against the columns and producers of the workspace too.

    Args:
        stores: Stores of the workspace, of which nothing is changed.
        path: The file.
        origin: What its answers are said to be from; "" for the file itself.
        trust_answers_of: People whose answers are to count, of whom the file must have some.

    Raises:
        RequestError: It is no file of labels, or something in it is not as `write_labels` writes it.
        StoreError: The log of the workspace cannot be read.
    """
    with (
        tempfile.TemporaryDirectory(prefix="ares-labels-") as folder,
        closing(SqliteAnnotationStore(Path(folder) / "labels.db")) as log,
    ):
        try:
            staged = StagedLabels(origin or file_origin("file", path), log)
            for lines in batched(enumerate(read_lines(str(path)), start=1), _PAGE):
                _stage_lines(stores, staged, [(f"{path}:{number}", line) for number, line in lines])
        except (OSError, StoreError, SourceError) as error:
            refuse_labels(str(path), error)
        if not staged.columns:
            refuse_labels(str(path), "it has no columns")
        _check_people_columns(stores, staged, str(path))
        _check_applies(stores, staged, str(path))
        check_people(trust_answers_of, staged.people)
        yield staged


def _stage_lines(stores: Stores, staged: StagedLabels, lines: Sequence[tuple[str, bytes]]) -> None:
    """Take lines in, each checked by itself and against those before it."""
    annotations, episodes = list[Annotation](), dict[str, Json]()
    for where, text in lines:
        line = parse_line(text, where)
        if line.columns is not None:
            staged.columns |= line.columns
        elif line.removed is not None:
            staged.removed += line.removed
        elif line.maker is not None:
            _stage_producer(stores, staged, line.maker.make(), where)
        elif line.document is not None:
            _stage_document(staged, *line.document, where=where)
        elif line.episode is not None:
            episodes[line.episode.episode_id] = line.episode.model_dump()
        elif line.annotation is not None:
            annotation = parse_annotation(line.annotation, where)
            _check_annotation(staged, annotation, where)
            annotations.append(annotation)
    staged.log.put_documents(_EPISODES, episodes)
    ids = sorted({annotation.episode_id for annotation in annotations})
    for id in ids:
        if staged.log.get_document(_EPISODES, id) is None:
            refuse_labels(
                lines[0][0], f"an annotation is of episode {id[:16]!r}, which the file does not have"
            )
    staged.log.append(annotations)
    staged.annotations += len(annotations)


def _stage_producer(stores: Stores, staged: StagedLabels, producer: Producer, where: str) -> None:
    """Check a producer against the tables and the producers that the log has, and take it in."""
    person = producer.settings.get("person", "")
    try:
        is_signed = producer.kind == "person" and person_settings(str(person)) == {"person": person}
    except RequestError as error:
        refuse_labels(where, error)
    columns = {column.name for column in producer.columns}
    if not is_signed and (person or producer.annotator in PERSON_ANNOTATORS or columns & PERSON_COLUMNS):
        refuse_labels(where, f"{producer.annotator} speaks for a person")
    if producer.kind == "person" and not is_signed:
        refuse_labels(where, "a person has no name")
    known = stores.annotations.producers().get(producer.maker_id)
    fixed = ("kind", "subject_kind", "after", "fills_segments")
    if known and any(getattr(known, name) != getattr(producer, name) for name in fixed):
        refuse_labels(where, f"producer {producer.maker_id} is another one here")
    existing, sources = stores.tables.episodes.columns(), set(episode_schema().names)
    for column in declared_columns([producer]):
        if column.name in sources or existing.get(column.name, column.episode_type) != column.episode_type:
            refuse_labels(
                where, f"{producer.annotator} declares the column {column.name}, which is another one here"
            )
    staged.producers[producer.maker_id] = producer
    staged.log.add_producer(producer)


def _stage_document(staged: StagedLabels, collection: str, key: Any, document: Any, *, where: str) -> None:
    try:
        if collection == PINS:
            if staged.producers[document].annotator != key:
                raise ValueError(f"{document} is no producer of {key!r}")
        elif not is_drawing(collection, str(key), document):
            return
    except _UNREADABLE as error:
        refuse_labels(where, error)
    staged.documents.setdefault(collection, {})[str(key)] = document


def _check_annotation(staged: StagedLabels, annotation: Annotation, where: str) -> None:
    """Refuse what nobody has made, and answers that are none or that speak for somebody else."""
    producer = staged.producers.get(annotation.maker_id)
    if producer is None:
        refuse_labels(where, "an annotation has a producer that the file does not have")
    value = annotation.value
    try:
        if producer.kind == "person":
            person = str(producer.settings["person"])
            staged.people.add(person)
            answer = read_answer(annotation)
            if answer and (answer_from_row(answer.to_json()) != answer or answer.person.strip() != person):
                raise ValueError(f"an answer of {person} is signed by somebody else")
        elif names_people(value) or "answer" in value or annotation.name in PERSON_ANNOTATORS:
            raise ValueError(f"{producer.annotator} speaks for a person")
        if annotation.name == CONTROL:
            for control in read_controls([value]):
                datetime.fromtimestamp(control.time, UTC)
    except _UNREADABLE as error:
        refuse_labels(where, error)


def _check_people_columns(stores: Stores, staged: StagedLabels, where: str) -> None:
    """Refuse tags, notes and values that nobody could give here."""
    texts, declared = set[str](), {column.name for column in declared_columns(staged.producers.values())}
    try:
        for episode in staged.episodes():
            texts.update(episode.tags or (), episode.notes or (), episode.values)
            for name, value in episode.values.items():
                if name in declared or name in episode_schema().names:
                    raise ValueError(f"{name} is a column of an annotator or of the source")
                if fault := type_mismatch(value, staged.columns.get(name, ""), name):
                    raise ValueError(fault)
            for tag in episode.tags or ():
                check_name("tag", tag)
            for note in episode.notes or ():
                check_note(note)
            if len(texts) > _MOST_TEXTS:
                raise ValueError(f"more than {_MOST_TEXTS} different tags, notes and columns of people")
    except _UNREADABLE as error:
        refuse_labels(where, error)


def _check_applies(stores: Stores, staged: StagedLabels, where: str) -> None:
    """Refuse annotations that the tables could not show."""
    try:
        fault = next(find_unshowable_values(stores.tables, staged.log), "")
    except _UNREADABLE as error:
        refuse_labels(where, error)
    if fault:
        refuse_labels(where, fault)


def _store_annotations(
    stores: Stores,
    staged: StagedLabels,
    targets: Mapping[str, Sequence[str]],
    trust_answers_of: Collection[str],
) -> int:
    """Append what models and code say; keep what people say, and let it count where they are trusted."""
    log, count, known = stores.annotations, 0, dict[str, str]()
    people = {id: producer for id, producer in staged.producers.items() if producer.kind == "person"}
    for id, producer in staged.producers.items():
        if id not in people:
            log.add_producer(with_known_columns(log, producer))
    for page in staged.pages():
        moved = [
            _move_annotation(annotation, id, known)
            for annotation in page
            for id in targets.get(annotation.episode_id, ())
        ]
        count += len(moved)
        log.append([annotation for annotation in moved if annotation.maker_id not in people])
        answers = (item for item in moved if item.maker_id in people)
        keep_foreign_answers(
            log,
            (
                ForeignAnswer(annotation=item, producer=people[item.maker_id], origin=staged.origin)
                for item in answers
            ),
        )
    trust_answers(log, staged.origin, trust_answers_of, user_name())
    return count


def _set_values_of_people(stores: Stores, staged: StagedLabels, here: Collection[str]) -> None:
    """Set the values of columns that people set."""
    import pyarrow as pa

    columns: dict[str, dict[str, Any]] = {}
    for episode in staged.episodes():
        for name, value in episode.values.items() if episode.episode_id in here else ():
            columns.setdefault(name, {})[episode.episode_id] = value
    for name, values in columns.items():
        kind = arrow_type(cast("ColumnType", staged.columns[name]))
        set_values(stores, name, pa.array(list(values), pa.string()), pa.array(list(values.values()), kind))


def _add_columns(stores: Stores, types: Mapping[str, str]) -> None:
    """Add the columns of people that the episodes do not have, without values; producers bring theirs."""
    import pyarrow as pa

    names = sorted({TAGS, NOTES} & types.keys())
    stores.tables.episodes.add_missing_columns(
        pa.schema([(name, arrow_type("list<string>")) for name in names])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedLabels:
    """What labels of a card were given to episodes of a workspace.

    Attributes:
        episodes: Episodes here that are those of the card, or have the content of one.
        annotations: Annotations that they got.
        tags: Tags that they got.
        uncounted: Answers of the file that do not count, by person.
    """

    episodes: int
    annotations: int
    tags: int
    uncounted: Mapping[str, int]

    def to_json(self) -> dict[str, Json]:
        """The counts as JSON."""
        return {**asdict(self), "uncounted": dict(self.uncounted)}


def carry_labels(
    stores: Stores,
    staged: StagedLabels,
    trust_answers_of: Collection[str] = (),
    *,
    job: str = "ares ingest",
    rebuilds: bool = False,
) -> CarriedLabels:
    """Give the labels of a card to the episodes here that have the same content, whatever their ids and numbers are.

    Args:
        stores: Stores of the workspace.
        staged: The labels that `ares set lock` wrote beside a card.
        trust_answers_of: Names of the people whose answers count.
        job: What other jobs are told that wait for this one.
        rebuilds: Whether episodes have the ids of the card, and get everything: notes, values and removals too,
            as actions of the user here.
    """
    with stores.write_lock(job):
        targets = _find_same_ids(stores, staged) if rebuilds else _find_same_content(stores, staged)
        if rebuilds:
            _set_values_of_people(stores, staged, targets)
        with stores.annotations.atomic():
            for collection, documents in staged.documents.items() if rebuilds else ():
                stores.annotations.put_documents(collection, documents)
            count = _store_annotations(stores, staged, targets, trust_answers_of)
        stores.sync()
        if rebuilds:
            _add_columns(stores, staged.columns)
        tags, notes = dict[str, set[str]](), dict[str, set[str]]()
        for episode in staged.episodes():
            for texts, by_text in ((episode.tags, tags), (episode.notes if rebuilds else (), notes)):
                for text in texts or ():
                    by_text.setdefault(text, set()).update(targets.get(episode.episode_id, ()))
        for text, ids in tags.items():
            _act_on(ids, partial(add_tag, stores, text))
        for text, ids in notes.items():
            _act_on(ids, partial(add_note, stores, text))
        if rebuilds:
            _act_on(targets.keys() & set(staged.removed), partial(remove_episodes, stores))
    return CarriedLabels(
        episodes=len({id for ids in targets.values() for id in ids}),
        annotations=count,
        tags=sum(map(len, tags.values())),
        uncounted=count_uncounted_answers(stores.annotations, staged.origin),
    )


def _find_same_ids(stores: Stores, staged: StagedLabels) -> dict[str, list[str]]:
    """The episodes of the card that are here under their ids, and those that were removed."""
    here = stores.tables.episodes.ids()
    ids = (*(episode.episode_id for episode in staged.episodes()), *staged.removed)
    return {id: [id] for id in ids if id in here}


def _find_same_content(stores: Stores, staged: StagedLabels) -> dict[str, list[str]]:
    """By id of an episode of the card the episodes here with its content."""
    targets: dict[str, list[str]] = {}
    for episodes in batched((episode for episode in staged.episodes() if episode.content_hash), _PAGE):
        where = in_condition("content_hash", sorted({episode.content_hash for episode in episodes}))
        here: dict[str, list[str]] = {}
        for row in stores.tables.episodes.read_columns(["episode_id", "content_hash"], where).to_pylist():
            here.setdefault(row["content_hash"], []).append(row["episode_id"])
        targets |= {
            episode.episode_id: ids for episode in episodes if (ids := here.get(episode.content_hash))
        }
    return targets


def _act_on(ids: Set[str], act: Callable[[SelectedEpisodes], object]) -> None:
    """Do something with some episodes, if there are any."""
    if ids:
        with SelectedEpisodes(EpisodeSelection(ids=sorted(ids)), ids) as selected:
            act(selected)


def _move_annotation(annotation: Annotation, episode_id: str, known: dict[str, str]) -> Annotation:
    """The annotation as one of another episode; what it describes is the same part of that.

    Args:
        annotation: One of an episode of the card; what it describes came before it.
        episode_id: The episode here.
        known: By episode here and old subject the new one; grows.
    """
    old = annotation.episode_id
    start, stop = annotation.start_seconds, annotation.stop_seconds
    known[f"{episode_id} {old}"] = episode_id
    known[f"{episode_id} {make_segment_id(old, start, stop)}"] = make_segment_id(episode_id, start, stop)
    subject = known.get(f"{episode_id} {annotation.subject}", annotation.subject)
    moved = replace(annotation, episode_id=episode_id, subject=subject, subject_kind=annotation.subject_kind)
    known[f"{episode_id} {annotation.annotation_id}"] = moved.annotation_id
    return moved
