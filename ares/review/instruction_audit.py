"""The instruction audit: episodes that another instruction of their dataset fits better than the stated one."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast
from uuid import uuid4

from ares.console import count_are, count_of
from ares.errors import RequestError
from ares.review.answers import INSTRUCTION
from ares.review.drawing import Queue, QueueRequest, create_queue
from ares.review.instruction_features import read_features
from ares.review.instruction_model import (
    CLEAR_RATIOS,
    LEAST_EPISODES,
    LabelledRows,
    fit_instructions,
)
from ares.review.instruction_power import AuditPower, measure_power
from ares.search import find_embedding_space
from ares.store import batched, ids_filter, quote_literal, recorded_columns, recorded_instruction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.review.instruction_model import InstructionFits
    from ares.store import Stores


# Kinds of documents: the audit of each dataset, under its name, and under one key what is another after each audit.
AUDITS, AUDIT_STAMPS = "instruction_audits", "instruction_audit_stamps"
_LAST = "last"
_VERSION = "2"
# Where the first ratio finds too few exchanges, at the others so large a share of what was not exchanged may be named.
_MOST_NAMED = 0.02
# Findings that are kept of a dataset.
_MOST_FINDINGS = 10_000
# Episodes that are looked up at once.
_LOOKUP_BATCH = 1_000
_COLUMNS = ("episode_id", "content_hash")
_LABEL_COLUMNS = ("instruction_fits", "corrected_instruction")
_REMEDY = "embed with a model that knows these pictures (`ares annotate embed --model SPEC`)"
_PUNCTUATION = re.compile(r"[\W_]+")
Verdict = Literal["judged", "unsure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionFinding:
    """An episode that another instruction of its dataset fits better than the stated one.

    Attributes:
        episode_id: Id of the episode.
        instruction: What the source says.
        proposed: The instruction that fits better.
        share: Probability of that one against the stated one, 0.5 to 1.
        key: Key of the episode in its source; "" in audits of earlier versions.
        source: File or folder of its source; "" in those, too.
    """

    episode_id: str
    instruction: str
    proposed: str
    share: float
    key: str = ""
    source: str = ""

    def __str__(self) -> str:
        return f'the instruction "{self.instruction}" fits less than "{self.proposed}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionAudit:
    """What the audit says of a dataset.

    Attributes:
        dataset: Its name.
        verdict: "unsure" where less than half of exchanged instructions is found: then nobody is named.
        reason: Why it is unsure, or what was left out.
        episodes: Episodes with an instruction.
        judged: Those whose instruction has a model.
        instructions: Instructions that can be distinguished.
        power: What of exchanged instructions it finds.
        space: Embedding space of the frames.
        findings: Episodes that another instruction fits better, the surest first.
        created: ISO 8601 time in UTC.
    """

    dataset: str
    verdict: Verdict
    reason: str = ""
    episodes: int = 0
    judged: int = 0
    instructions: int = 0
    power: AuditPower = field(default_factory=AuditPower)
    space: str = ""
    findings: tuple[InstructionFinding, ...] = ()
    created: str = ""

    def __str__(self) -> str:
        if self.verdict == "unsure":
            return f"{self.dataset}: unsure, {self.reason}; {count_of(self.episodes, 'episode')}, nobody is named"
        return (
            f"{self.dataset}: {len(self.findings)} of {self.judged} judged episodes fit another instruction better; "
            f"{count_of(self.instructions, 'instruction')} are distinguished; {self.power}; "
            f"{count_are(self.episodes - self.judged, 'episode')} not judged"
        )

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return asdict(self)


def audit_instructions(stores: Stores, datasets: Sequence[str] = ()) -> list[InstructionAudit]:
    """Audit datasets, all by default, and keep what was found in place of an earlier audit.

    Args:
        stores: Stores of the workspace.
        datasets: Their names.

    Returns:
        The audits, by dataset.

    Raises:
        RequestError: There is no such dataset, or the workspace has no vectors of frames.
        StoreError: The tables cannot be read or the log cannot be written.
    """
    # Answers of a queue are in the log at once, and in the tables later.
    stores.sync()
    batches = stores.tables.episodes.scan(["dataset"])
    known = {name for batch in batches for name in batch["dataset"].unique().to_pylist()}
    unknown = [name for name in datasets if name not in known]
    if unknown or not known:
        raise RequestError(
            f"no dataset {unknown[0]!r}" if unknown else "there are no episodes",
            f"there are: {', '.join(sorted(known))}" if known else "run `ares ingest` first",
        )
    space = find_embedding_space(stores).name
    audits = [_audit_dataset(stores, name, space) for name in sorted(datasets or known)]
    documents: dict[str, Json] = {audit.dataset: audit.to_json() for audit in audits}
    stores.annotations.put_documents(AUDITS, documents)
    stores.annotations.put_documents(AUDIT_STAMPS, {_LAST: uuid4().hex})
    return audits


def read_audits(stores: Stores) -> list[InstructionAudit]:
    """The last audit of each dataset, without findings of episodes that are gone or that a person has ruled on."""
    audits = []
    for _, document in stores.annotations.find_documents(AUDITS):
        audit = _audit_from_json(document)
        texts = {
            episode.episode_id: episode.text
            for ids in batched([finding.episode_id for finding in audit.findings], _LOOKUP_BATCH)
            for episode in read_audited_episodes(stores, ids_filter(ids))
            if not episode.is_ruled
        }
        kept = (finding for finding in audit.findings if texts.get(finding.episode_id) == finding.instruction)
        audits.append(replace(audit, findings=tuple(kept)))
    return audits


def create_audit_queue(stores: Stores, request: QueueRequest, dataset: str = "") -> Queue:
    """Make a queue of the episodes that the audits name, the surest first.

    Args:
        stores: Stores of the workspace.
        request: Its name, person, guideline and shares; what it asks and how many follow from the audits.
        dataset: Whose audit is asked about; "" for the audits of all datasets.

    Raises:
        RequestError: The audits name nobody, there is no audit yet, or the name is taken.
    """
    audits = [audit for audit in read_audits(stores) if dataset in ("", audit.dataset)]
    shares = {finding.episode_id: finding.share for audit in audits for finding in audit.findings}
    if not shares:
        hint = "`ares audit instructions` makes one" if not audits else "its instructions need no queue"
        raise RequestError("no audit names an episode", hint)
    recipe: dict[str, Json] = {"audit": _VERSION, **({"dataset": dataset} if dataset else {})}
    return create_queue(stores, replace(request, question=INSTRUCTION, recipe=recipe), shares, order=shares)


def find_finding(stores: Stores, dataset: str, episode_id: str) -> InstructionFinding | None:
    """What the last audit of a dataset said of an episode that it names, before a person ruled on it; else None."""
    document = stores.annotations.get_document(AUDITS, dataset)
    findings = _audit_from_json(document).findings if document else ()
    return next((finding for finding in findings if finding.episode_id == episode_id), None)


def _audit_from_json(document: Json) -> InstructionAudit:
    stored = cast("dict[str, Any]", document)
    findings = tuple(
        InstructionFinding(**_pick_fields(InstructionFinding, row)) for row in stored["findings"]
    )
    power = AuditPower(**stored.get("power", {}))
    return InstructionAudit(
        **{**_pick_fields(InstructionAudit, stored), "findings": findings, "power": power}
    )


def _pick_fields(kind: Any, stored: Mapping[str, Any]) -> dict[str, Any]:
    """What a class knows of a stored row: earlier versions kept more, or less."""
    return {part.name: stored[part.name] for part in fields(kind) if part.name in stored}


class AuditedEpisode(NamedTuple):
    """What the audit knows of an episode with an instruction.

    Attributes:
        episode_id: Id of the episode.
        text: What the source says.
        counting: What it is taken to say: a person's correction, or the text of the source.
        content: Hash of the content of the recording; duplicates have the same. 0 where the source says none.
        is_ruled: Whether a person has said whether the instruction is right.
        is_refused: Whether a person has said that it is wrong, and no other.
    """

    episode_id: str
    text: str
    counting: str
    content: int
    is_ruled: bool = False
    is_refused: bool = False


def read_audited_episodes(stores: Stores, where: str) -> Iterator[AuditedEpisode]:
    """Yield the episodes that match a filter and have an instruction; there may be a million."""
    episodes, existing = stores.tables.episodes, stores.tables.episodes.columns()
    labels = [name for name in _LABEL_COLUMNS if name in existing]
    labels += recorded_columns(existing, "instruction")
    for batch in episodes.scan([*_COLUMNS, *labels], where):
        for row in batch.to_pylist():
            text, corrected = sys.intern(recorded_instruction(row)), row.get("corrected_instruction") or ""
            fits = row.get("instruction_fits")
            if text.strip():
                yield AuditedEpisode(
                    episode_id=row["episode_id"],
                    text=text,
                    counting=sys.intern(corrected) or text,
                    content=hash(row["content_hash"] or 0),
                    is_ruled=fits is not None or bool(corrected),
                    is_refused=fits is False and not corrected,
                )


def _audit_dataset(stores: Stores, dataset: str, space: str) -> InstructionAudit:
    """Audit one dataset and keep nothing; errors are those of `audit_instructions`."""
    audit = InstructionAudit(
        dataset=dataset,
        verdict="unsure",
        space=space,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    rows = list(read_audited_episodes(stores, f"dataset = {quote_literal(dataset)}"))
    if len({normalize_instruction(text) for text in {row.counting for row in rows}}) < 2:
        return replace(audit, episodes=len(rows), reason="it has fewer than two instructions")
    features = read_features(stores, [row.episode_id for row in rows], space)
    if features is None:
        reason = f"it has no frame vectors in {space}: run `ares annotate embed` first"
        return replace(audit, episodes=len(rows), reason=reason)
    seen = [row for row, is_seen in zip(rows, features.is_seen.tolist(), strict=True) if is_seen]
    judged = judge_instructions(audit, seen, features.values[features.is_seen])
    return replace(judged, episodes=len(rows), findings=tuple(_with_sources(stores, judged.findings)))


def _with_sources(stores: Stores, findings: Sequence[InstructionFinding]) -> Iterator[InstructionFinding]:
    for batch in batched(findings, _LOOKUP_BATCH):
        rows = stores.tables.episodes.read_columns(
            ["episode_id", "key", "source"], ids_filter([finding.episode_id for finding in batch])
        )
        by_id = {row["episode_id"]: row for row in rows.to_pylist()}
        for finding in batch:
            row = by_id.get(finding.episode_id, {"key": "", "source": ""})
            yield replace(finding, key=row["key"], source=row["source"])


def normalize_instruction(text: str) -> str:
    """A text without case, punctuation and repeated spaces: what is written so is one instruction."""
    return _PUNCTUATION.sub(" ", text.casefold()).strip()


def judge_instructions(
    audit: InstructionAudit, rows: Sequence[AuditedEpisode], features: NDArray[np.float16]
) -> InstructionAudit:
    """The verdict and the findings of N episodes.

    Args:
        audit: The audit so far.
        rows: The N episodes.
        features: (N, F) features.
    """
    labelled, texts = _label_rows(rows, features)
    for clear_ratio in CLEAR_RATIOS:
        fits = fit_instructions(labelled, clear_ratio)
        power = measure_power(labelled, fits)
        can_tell = power.is_enough and (
            clear_ratio == CLEAR_RATIOS[0] or power.named <= _MOST_NAMED * power.others
        )
        if can_tell:
            break
    audit = replace(
        audit,
        episodes=len(rows),
        judged=int((fits.classes[labelled.labels] >= 0).sum()),
        instructions=fits.count,
        power=power,
    )
    if not can_tell:
        counts = f"found {audit.power.detected} of {audit.power.planted} planted"
        are_rare = 2 * audit.judged < audit.episodes
        why = (
            f"most instructions have fewer than {LEAST_EPISODES} different episodes" if are_rare else _REMEDY
        )
        return replace(audit, reason=f"cannot tell here ({counts}): {why}")
    findings = islice(_find_contrary(rows, labelled, fits, texts), _MOST_FINDINGS)
    return replace(audit, verdict="judged", findings=tuple(findings))


def _label_rows(
    rows: Sequence[AuditedEpisode], features: NDArray[np.float16]
) -> tuple[LabelledRows, list[str]]:
    """The episodes as numbers, and the most frequent wording of each instruction."""
    import numpy as np

    counts = Counter(row.counting for row in rows)
    normalized = {text: normalize_instruction(text) for text in counts}
    number = {name: index for index, name in enumerate(dict.fromkeys(normalized.values()))}
    labels = {text: number[name] for text, name in normalized.items()}
    wordings = {labels[text]: text for text in sorted(counts, key=lambda text: (counts[text], text))}
    # Duplicates have the same content; where the source says none, the same features.
    pairs = zip(rows, features, strict=True)
    contents, recordings = (row.content or hash(vector.tobytes()) for row, vector in pairs), dict[int, int]()
    groups = np.array([recordings.setdefault(content, len(recordings)) for content in contents])
    first = np.zeros(len(rows), np.bool_)
    first[np.unique(groups, return_index=True)[1]] = True
    labelled = LabelledRows(
        features=features,
        labels=np.array([labels[row.counting] for row in rows]),
        groups=groups,
        is_counted=first & ~np.array([row.is_refused for row in rows]),
    )
    return labelled, [wordings[label] for label in range(len(number))]


def _find_contrary(
    rows: Sequence[AuditedEpisode], labelled: LabelledRows, fits: InstructionFits, texts: Sequence[str]
) -> Iterator[InstructionFinding]:
    """Yield the episodes that another instruction fits clearly better, the surest first."""
    import numpy as np

    named = np.flatnonzero(fits.is_named)
    largest = _largest_labels(labelled, fits)
    for index in named[np.argsort(-fits.share[named], kind="stable")].tolist():
        if not rows[index].is_ruled:
            yield InstructionFinding(
                episode_id=rows[index].episode_id,
                instruction=rows[index].text,
                proposed=texts[largest[int(fits.best[index])]],
                share=round(float(fits.share[index]), 4),
            )


def _largest_labels(labelled: LabelledRows, fits: InstructionFits) -> list[int]:
    """By class the label that most episodes have."""
    import numpy as np

    counts = np.bincount(labelled.labels, minlength=len(fits.classes))
    return [
        int(max(np.flatnonzero(fits.classes == number), key=lambda label: (counts[label], -label)))
        for number in range(fits.count)
    ]
