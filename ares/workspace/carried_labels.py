"""Labels that travel with a set: read from a file, checked as a whole, given to the episodes of the set."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ares.annotation import Annotation, ColumnType, Producer
from ares.curation import (
    SelectedEpisodes,
    add_note,
    add_tag,
    check_note,
    remove_episodes,
    set_values,
)
from ares.episode import Json
from ares.errors import RequestError, SourceError, StoreError
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
    declared_columns,
    episode_schema,
    find_unshowable_values,
    keep_foreign_answers,
    trust_answers,
    type_mismatch,
    with_known_columns,
)
from ares.workspace.answer_rows import answer_from_row
from ares.workspace.label_lines import (
    PINS,
    UNREADABLE,
    EpisodeForm,
    is_drawing,
    parse_annotation,
    parse_line,
    parse_producer,
    refuse_labels,
)

if TYPE_CHECKING:
    from ares.store import Stores


# Lines and annotations that are read at once; different tags, notes and columns of people that a file may have.
_PAGE, _MOST_TEXTS = 10_000, 1_000
_EPISODES = "card_episodes"


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
    """

    origin: str
    log: SqliteAnnotationStore
    columns: dict[str, str] = field(default_factory=dict)
    producers: dict[str, Producer] = field(default_factory=dict)
    documents: dict[str, dict[str, Json]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    people: set[str] = field(default_factory=set)

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
    stores: Stores, path: Path, origin: str, trust_answers_of: Collection[str]
) -> Iterator[StagedLabels]:
    """Read a file of labels as a whole and check it, against the columns and producers of the workspace too.

    Args:
        stores: Stores of the workspace, of which nothing is changed.
        path: The file.
        origin: What its answers are said to be from, see `ares.store.file_origin`.
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
            staged = StagedLabels(origin, log)
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
            _stage_producer(stores, staged, parse_producer(line.maker, where), where)
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
    except UNREADABLE as error:
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
    except UNREADABLE as error:
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
    except UNREADABLE as error:
        refuse_labels(where, error)


def _check_applies(stores: Stores, staged: StagedLabels, where: str) -> None:
    """Refuse annotations that the tables could not show."""
    try:
        fault = next(find_unshowable_values(stores.tables, staged.log), "")
    except UNREADABLE as error:
        refuse_labels(where, error)
    if fault:
        refuse_labels(where, fault)


def carry_annotations(stores: Stores, staged: StagedLabels, trust_answers_of: Collection[str]) -> int:
    """Store what models, code and people say of episodes; what people say counts where they are trusted.

    Pins and drawings of measurements come with it. A second time changes nothing, but for the people who are trusted
    then.

    Args:
        stores: Stores of a workspace with the episodes; the caller holds its write lock.
        staged: The labels that `ares set lock` wrote beside a card.
        trust_answers_of: Names of the people whose answers count.

    Returns:
        Number of annotations of episodes that are here.
    """
    log, count, here = stores.annotations, 0, _known_ids(stores, staged)
    people = {id: producer for id, producer in staged.producers.items() if producer.kind == "person"}
    with log.atomic():
        for collection, documents in staged.documents.items():
            log.put_documents(collection, documents)
        for id, producer in staged.producers.items():
            if id not in people:
                log.add_producer(with_known_columns(log, producer))
        for page in staged.pages():
            known = [annotation for annotation in page if annotation.episode_id in here]
            count += len(known)
            log.append([annotation for annotation in known if annotation.maker_id not in people])
            answers = (
                ForeignAnswer(annotation=item, producer=people[item.maker_id], origin=staged.origin)
                for item in known
                if item.maker_id in people
            )
            keep_foreign_answers(log, answers)
        trust_answers(log, staged.origin, trust_answers_of, user_name())
    stores.sync()
    return count


def repeat_actions(stores: Stores, staged: StagedLabels) -> None:
    """Give tags, notes and values, and remove episodes, as actions of the user; the caller holds the write lock."""
    import pyarrow as pa

    here, columns = _known_ids(stores, staged), dict[str, dict[str, Any]]()
    tags, notes = dict[str, set[str]](), dict[str, set[str]]()
    for episode in staged.episodes():
        id = episode.episode_id
        if id in here:
            for texts, by_text in ((episode.tags, tags), (episode.notes, notes)):
                for text in texts or ():
                    by_text.setdefault(text, set()).add(id)
            for name, value in episode.values.items():
                columns.setdefault(name, {})[id] = value
    for name, values in columns.items():
        kind = arrow_type(cast("ColumnType", staged.columns[name]))
        set_values(stores, name, pa.array(list(values), pa.string()), pa.array(list(values.values()), kind))
    # An export has every column, also one without values; producers bring theirs.
    texts = pa.schema(
        [(name, arrow_type("list<string>")) for name in sorted({TAGS, NOTES} & staged.columns.keys())]
    )
    stores.tables.episodes.add_missing_columns(texts)
    for text, ids in tags.items():
        _act_on(ids, partial(add_tag, stores, text))
    for text, ids in notes.items():
        _act_on(ids, partial(add_note, stores, text))
    _act_on(here & set(staged.removed), partial(remove_episodes, stores))


def _known_ids(stores: Stores, staged: StagedLabels) -> set[str]:
    """The episodes of the card that are here, and those that were removed."""
    ids = {*(episode.episode_id for episode in staged.episodes()), *staged.removed}
    return ids & stores.tables.episodes.ids()


def _act_on(ids: Set[str], act: Callable[[SelectedEpisodes], object]) -> None:
    """Do something with some episodes, if there are any."""
    if ids:
        with SelectedEpisodes(EpisodeSelection(ids=sorted(ids)), ids) as selected:
            act(selected)
