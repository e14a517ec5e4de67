"""Sets whose members are spans: what they keep, how they compare, their locks, and what a purge takes along."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ares.annotation import Producer
from ares.curation import Sets, purge_episodes
from ares.curation.lock_files import SetLock, read_lock
from ares.doctor import run_checks
from ares.episode import Span
from ares.errors import RequestError
from ares.store import StagedIds
from ares.workspace import Workspace
from tests.ares.export.segments import PERSON, SEGMENTER, append, segment


@pytest.fixture
def segmented(curated: Workspace, ids: list[str]) -> Workspace:
    """Two episodes with two spans each by a segmenter, one of which a person names too."""
    made = [
        segment(SEGMENTER, id, span, {"text": ""}) for id in ids[:2] for span in ((0.0, 1.25), (10.5, 12.0))
    ]
    append(curated, [SEGMENTER, PERSON], [*made, segment(PERSON, ids[0], (10.5, 12.0), {"text": "lift\nit"})])
    return curated


def test_a_set_keeps_its_spans_when_segments_are_made_anew(segmented: Workspace, ids: list[str]) -> None:
    frozen = segmented.sets.create_spans("parts", where="annotator != 'caption'")
    assert (frozen.num_spans, frozen.episodes, frozen.size) == (4, 2, "4 spans of 2 episodes")
    before = list(frozen.spans)
    assert [(span.episode_id, span.start_seconds, span.stop_seconds) for span in before] == [
        (id, *times) for id in sorted(ids[:2]) for times in ((0.0, 1.25), (10.5, 12.0))
    ]
    named = next(span for span in before if span.episode_id == ids[0] and span.start_seconds > 1)
    assert named.text == "lift\nit", "of two segments with one span the one with a text"
    newer = Producer(annotator="segment", version="2", fills_segments=True)
    append(segmented, [newer], [segment(newer, id, (0.0, 5.0), {"text": ""}) for id in ids[:2]])
    assert list(segmented.sets["parts@1"].spans) == before
    again = segmented.sets.create_spans("parts", where="annotator != 'caption'")
    diff = segmented.sets.diff("parts@1", "parts@2")
    assert again.version == 2 and (diff.added, diff.removed) != (0, 0)
    assert {Span.parse(line).stop_seconds for line in diff.added_ids()} == {5.0}
    assert segmented.sets.create_spans("parts", where="annotator != 'caption'") == again
    assert run_checks(segmented.stores) == []


def test_spans_are_chosen_by_text_limit_and_list(segmented: Workspace, ids: list[str]) -> None:
    found = segmented.search_segments("lift it", where="annotator = 'spans'")
    for frozen in (
        segmented.sets.create_spans("a", found),
        segmented.sets.create_spans("b", search="lift it", where="annotator = 'spans'", limit=1),
    ):
        (span,) = frozen.spans
        assert (span.episode_id, span.annotation_id) == (ids[0], found[0].annotation_id)
    first = segmented.sets.create_spans("c", where="annotator = 'segment'", limit=1)
    assert [span.start_seconds for span in first.spans] == [0.0] and list(first.ids()) == [min(ids[:2])]
    assert first.recipe["where"] == "annotator = 'segment'" and first.recipe["limit"] == 1
    assert [episode.episode_id for episode in first.members] == [min(ids[:2])]
    for call, reason in (
        (lambda: segmented.sets.create_spans("d"), "needs words or a filter"),
        (lambda: segmented.sets.create_spans("d", []), "would be empty"),
        (lambda: segmented.sets.create_spans("d", where="style = 'none'"), "would be empty"),
        (lambda: segmented.sets.create_spans("d", found, limit=3), "not both"),
        (lambda: segmented.sets.diff("c", "good"), "cannot be compared"),
    ):
        with pytest.raises(RequestError, match=reason):
            call()


def test_a_lock_proves_spans(segmented: Workspace, tmp_path: Path) -> None:
    frozen = segmented.sets.create_spans("parts", where="annotator = 'segment'")
    frozen.write_lock(tmp_path / "lock.json")
    locked, read = read_lock(tmp_path / "lock.json", SetLock)
    assert (read.num_spans, read.ids_hash) == (4, frozen.ids_hash)
    assert list(map(Span.parse, locked.ids)) == list(frozen.spans)
    document = json.loads((tmp_path / "lock.json").read_text())
    document["ids"][0] = document["ids"][0].replace("1.25", "1.35")
    (tmp_path / "lock.json").write_text(json.dumps(document))
    with pytest.raises(RequestError, match="was changed"):
        read_lock(tmp_path / "lock.json", SetLock)


@pytest.mark.slow
def test_a_purged_episode_takes_its_spans_along(segmented: Workspace, ids: list[str]) -> None:
    segmented.sets.create_spans("parts", where="annotator != 'caption'")
    with StagedIds(ids[:1]) as staged:
        purge_episodes(segmented.stores, staged)
    parts = segmented.sets["parts"]
    assert (parts.num_spans, parts.episodes, parts.purged) == (2, 1, 2)
    assert {span.episode_id for span in parts.spans} == {ids[1]}
    stored = json.dumps(list(segmented.stores.annotations.find_documents("set_members")))
    assert "lift\\\\nit" not in stored and ids[0] not in stored
    assert run_checks(segmented.stores) == []


def test_many_spans_with_long_texts_lie_in_documents_of_bounded_size(segmented: Workspace) -> None:
    sets = Sets(segmented.stores.annotations)
    spans = [
        Span(episode_id=f"{n:016x}", start_seconds=0.1 * n, stop_seconds=0.1 * n + 1, text="x" * 9_000)
        for n in range(300)
    ]
    frozen = sets.create_spans("long", reversed(spans), {})
    blocks = [block for _, block in segmented.stores.annotations.find_documents("set_members", "long@")]
    assert len(blocks) == 3 and max(len(json.dumps(block)) for block in blocks) < 2**21
    kept = list(sets.spans(frozen))
    assert [span.text for span in kept] == [span.text for span in spans]
    assert [span.start_seconds for span in kept] == [round(span.start_seconds, 6) for span in spans]
