"""What the audit of instructions said of each episode, which `ares show` prints beside what people say."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ares.store import ids_filter, recorded_columns, recorded_instruction

if TYPE_CHECKING:
    from ares.annotation import Producer
    from ares.episode import Json
    from ares.store import Stores


MET, UNMET, UNSURE = "met", "unmet", "unsure"
# By dataset and the start of ids what the audit of instructions said of each episode, by its producer.
VERDICTS = "instruction_verdicts"
# Episodes in one of these documents at most, and digits of their ids in its key at most.
_EPISODES_PER_DOCUMENT, _MOST_DIGITS = 4_096, 3


class AuditVerdict(NamedTuple):
    """What the audit of instructions said of an episode before a person ruled on it.

    Attributes:
        verdict: "met", "unmet" where it named the episode, or "unsure".
        rank: Probability of the stated instruction against the best other one, 0 to 1; None where it has no model.
        text_hash: What `hash_text` says of the instruction that was audited.
        judge: Id of the producer, which depends on the version of the audit and the embedding space.
        model: The same for people.
    """

    verdict: str
    rank: float | None
    text_hash: int
    judge: str = ""
    model: str = ""

    def to_json(self) -> dict[str, Json]:
        """What people read of it."""
        return {"verdict": self.verdict, "rank": self.rank, "judge": self.model}


def hash_text(text: str) -> int:
    """A number by which a text is known to be the same."""
    return zlib.crc32(text.encode())


def keep_audit_verdicts(
    stores: Stores, dataset: str, producer: Producer, verdicts: Mapping[str, AuditVerdict]
) -> None:
    """Store what the audit says of episodes; what it said of others of the dataset before stays.

    Of two audits at once, the second waits for the first.

    Args:
        stores: Stores of the workspace.
        dataset: The dataset.
        producer: The version of the audit, with the setting "space".
        verdicts: By id of the episode.

    Raises:
        StoreError: They cannot be stored.
    """
    model = f"instruction audit {producer.version}, {producer.settings['space']}"
    new = {id: item._replace(judge=producer.maker_id, model=model) for id, item in verdicts.items()}
    with stores.write_lock("verdicts of the instruction audit"), stores.annotations.atomic():
        stored = _read_verdict_documents(stores, dataset)
        whole = {id: item for document in stored.values() for id, item in _list_verdicts(document)} | new
        documents = _make_verdict_documents(dataset, whole)
        stores.annotations.drop_documents(VERDICTS, stored.keys() - documents.keys())
        stores.annotations.put_documents(VERDICTS, documents)


def _make_verdict_documents(dataset: str, verdicts: Mapping[str, AuditVerdict]) -> dict[str, Json]:
    """Verdicts in documents by dataset and start of ids; the more there are, the more digits."""
    lengths = range(_MOST_DIGITS)
    digits = next((n for n in lengths if len(verdicts) <= _EPISODES_PER_DOCUMENT * 16**n), _MOST_DIGITS)
    documents: dict[str, Any] = {}
    for id, (verdict, rank, text_hash, judge, name) in verdicts.items():
        document = documents.setdefault(f"{dataset}/{id[:digits]}", {})
        part = document.setdefault(judge, {"model": name, "episodes": {}})
        part["episodes"][id] = [verdict, rank, text_hash]
    return documents


def _read_verdict_documents(stores: Stores, dataset: str) -> dict[str, Json]:
    """The documents with the verdicts on a dataset, by their keys."""
    documents = stores.annotations.find_documents(VERDICTS, f"{dataset}/")
    return {key: document for key, document in documents if key.rpartition("/")[0] == dataset}


def _list_verdicts(document: Json) -> Iterator[tuple[str, AuditVerdict]]:
    for judge, part in cast("Mapping[str, Any]", document).items():
        for id, (verdict, rank, text_hash) in part["episodes"].items():
            yield id, AuditVerdict(verdict, rank, text_hash, judge, part["model"])


def find_audit_verdicts(stores: Stores, datasets: Mapping[str, str]) -> dict[str, AuditVerdict]:
    """What the audit said of some episodes, by their ids; nothing of those whose source says something else by now.

    Args:
        stores: Stores of the workspace.
        datasets: Dataset by id of the episode.
    """
    lengths, verdicts = range(_MOST_DIGITS + 1), dict[str, AuditVerdict]()
    keys = {f"{dataset}/{id[:length]}" for id, dataset in datasets.items() for length in lengths}
    episodes = stores.tables.episodes
    columns = ["episode_id", *recorded_columns(episodes.columns(), "instruction")]
    rows = episodes.read_columns(columns, ids_filter(list(datasets))).to_pylist()
    hashes = {row["episode_id"]: hash_text(recorded_instruction(row)) for row in rows}
    for document in stores.annotations.get_documents(VERDICTS, sorted(keys)):
        stored = _list_verdicts(document)
        verdicts.update((id, item) for id, item in stored if hashes.get(id) == item.text_hash)
    return verdicts
