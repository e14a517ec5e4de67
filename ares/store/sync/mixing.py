"""Which annotations make a group mixed: its columns then depend on several annotations of an episode."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ares.annotation import SubjectKind
from ares.store.annotations import LogEntry
from ares.store.sync.makers import MakerCatalog


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchScan:
    """What a batch of the log says of the groups that are not mixed yet.

    Attributes:
        maker_sequences: Sequence number of the newest annotation by maker_id, of all makers.
        mixing: Annotators that an annotation of the batch makes mixed.
        possibly_repeated: Episodes by maker_id of which it matters whether the maker has annotated them several times:
            what describes one of its annotations is then shown with the last of them alone.
    """

    maker_sequences: dict[str, int] = field(default_factory=dict)
    mixing: set[str] = field(default_factory=set)
    possibly_repeated: dict[str, set[str]] = field(default_factory=dict)


def scan_batch(batch: Sequence[LogEntry], catalog: MakerCatalog, mixed: Collection[str]) -> BatchScan:
    """Look at every annotation of a batch once.

    Args:
        batch: Annotations with their sequence numbers, in order.
        catalog: The makers.
        mixed: Annotators whose groups are mixed already.
    """
    scan = BatchScan()
    rules = _rules(catalog, mixed)
    for sequence, annotation in batch:
        maker_id = annotation.maker_id
        scan.maker_sequences[maker_id] = sequence
        rule = rules.get(maker_id)
        if rule is None or annotation.subject_kind != rule.subject_kind:
            continue
        # An annotation that fills no columns: what describes it does not fill those of the episode.
        lacks_columns = rule.lead_columns is not None and rule.lead_columns.isdisjoint(annotation.value)
        if rule.mixes or lacks_columns or annotation.part or annotation.ordinal or annotation.revision:
            scan.mixing.add(rule.annotator)
        for other in rule.watched:
            scan.possibly_repeated.setdefault(other, set()).add(annotation.episode_id)
    return scan


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """How to look at the annotations of one maker."""

    annotator: str
    subject_kind: SubjectKind
    mixes: bool
    lead_columns: set[str] | None
    watched: tuple[str, ...]


def _rules(catalog: MakerCatalog, mixed: Collection[str]) -> dict[str, _Rule]:
    rules: dict[str, _Rule] = {}
    for maker_id, maker in catalog.makers.items():
        if maker.annotator not in mixed:
            is_described = maker.annotator in catalog.described and maker.subject_kind == "episode"
            upstream = [other.maker_id for other in catalog.upstream(maker)]
            rules[maker_id] = _Rule(
                annotator=maker.annotator,
                subject_kind=maker.subject_kind,
                mixes=maker_id in catalog.mixing_makers,
                lead_columns=catalog.lead_columns.get(maker_id),
                watched=(*upstream, *([maker_id] if is_described else [])),
            )
    return rules
