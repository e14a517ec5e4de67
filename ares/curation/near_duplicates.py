"""Which episodes are near copies of each other, by signals, pixels and texts, and which of them is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from ares.curation.course_copies import CourseCopies, find_motion_copies
from ares.curation.near_pairs import find_near_pairs
from ares.curation.video_copies import MOST_DIFFERENT, MOST_DIFFERENT_IN_DOUBT, find_video_copies
from ares.errors import RequestError
from ares.registry import did_you_mean
from ares.search import list_embedding_spaces

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.store import Stores


NearWay = Literal["signals", "pixels", "text"]
NEAR_WAYS: tuple[NearWay, ...] = get_args(NearWay)
# Cosine similarities, without the mean of all: of the mean frames of two episodes that may be copies, and of each
# frame of the shorter one with the frame of the other that is most like it, in the mean.
# In doubt means: a split keeps them together, but neither is left out as a copy.
_EPISODE_CUT, _FRAME_CUT, _FRAME_CUT_IN_DOUBT = 0.8, 0.95, 0.85
_TEXT_CUT = 0.9
# A column by which the kept episode of a group is chosen, without another rule.
DEFAULT_KEEP = "num_steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPair:
    """Two episodes that are near copies.

    Attributes:
        first: Id of one; the smaller of the two.
        second: Id of the other.
        way: "content" where the source records are equal, else what told: "signals" or "pixels".
        score: 1 for equal ones; less for near ones.
    """

    first: str
    second: str
    way: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NearDuplicates:
    """The near copies among some episodes.

    Attributes:
        ids: The episodes, sorted.
        pairs: The pairs of copies, by ids; not every pair of a group needs to be one.
        compared: Number of episodes that could be compared, by way.
        recall: By way the least 95 % bound of the share of near vectors that the search found, on sampled rows; 1
            where every pair was computed.
    """

    ids: Sequence[str]
    pairs: Sequence[CopyPair]
    compared: Mapping[str, int]
    recall: Mapping[str, float]

    def groups(self) -> list[list[str]]:
        """Episodes that hang together by pairs, sorted; episodes without a copy are left out."""
        links = LinkedItems(self.ids)
        for pair in self.pairs:
            links.link(pair.first, pair.second)
        return [members for members in links.groups() if len(members) > 1]

    def to_json(self) -> dict[str, Json]:
        """Counts, for reports and recipes."""
        ways = [pair.way for pair in self.pairs]
        return {
            "pairs": {way: ways.count(way) for way in ("content", *NEAR_WAYS) if way in ways},
            "groups": len(self.groups()),
            "compared": dict(self.compared),
            "recall_at_least": {way: round(value, 4) for way, value in self.recall.items()},
        }


class LinkedItems:
    """Items that hang together by links: the groups of a union-find.

    Args:
        items: All items, distinct.
    """

    def __init__(self, items: Iterable[str]) -> None:
        self._parents = {item: item for item in items}

    def link(self, first: str, second: str) -> bool:
        """Put two items, and what hangs together with them, into one group; returns whether they were in two."""
        first, second = self._root(first), self._root(second)
        if first != second:
            self._parents[max(first, second)] = min(first, second)
        return first != second

    def _root(self, item: str) -> str:
        parents = self._parents
        while parents[item] != item:
            parents[item] = parents[parents[item]]
            item = parents[item]
        return item

    def groups(self) -> list[list[str]]:
        """All groups, those of one item too, each sorted, by their first item."""
        groups: dict[str, list[str]] = {}
        for item in sorted(self._parents):
            groups.setdefault(self._root(item), []).append(item)
        return list(groups.values())


def find_near_duplicates(
    stores: Stores,
    ids: Collection[str],
    ways: Sequence[str] = (),
    seed: int = 0,
    *,
    in_doubt: bool = False,
) -> NearDuplicates:
    """The near copies among some episodes, equal records among them.

    Without ways, signals tell where both episodes have signals, and pixels tell where they have not. Pixels are decoded
    frames; of an episode whose frames cannot be read, the vectors of the newest embedding space. Of several ways each
    must agree where it can compare both. Texts only take pairs away: many episodes share one.

    Args:
        stores: Stores of the workspace.
        ids: Ids of the episodes; those that are not in the workspace are left out.
        ways: Of "signals", "pixels" and "text".
        seed: Of the search.
        in_doubt: Whether frames that are only rather alike count: for a split, which must not part copies.

    Raises:
        RequestError: A way does not exist, or "text" is the only one.
    """
    check_near_ways(ways)
    stores.catch_up()
    rows = read_rows(stores, ids, ["content_hash", "instruction"])
    known: list[str] = rows["episode_id"].to_pylist()
    searched: dict[str, _WayPairs] = {}
    if not ways or "signals" in ways:
        searched["signals"] = _summarise_copies(find_motion_copies(stores, known, seed))
    if "pixels" in ways or not (ways or searched["signals"].comparable.all()):
        searched["pixels"] = _search_pixels(stores, known, seed, in_doubt=in_doubt)
    near = _combine_ways(searched, is_fallback=not ways)
    if "text" in ways:
        near = _keep_equal_texts(stores, near, rows["instruction"].to_pylist())
    pairs = dict.fromkeys(_equal_contents(rows["content_hash"].to_pylist()), ("content", 1.0))
    named = {**near, **pairs}
    return NearDuplicates(
        ids=known,
        pairs=[
            CopyPair(first=known[first], second=known[second], way=way, score=round(score, 4))
            for (first, second), (way, score) in sorted(named.items())
        ],
        compared={way: int(result.comparable.sum()) for way, result in searched.items()},
        recall={way: result.recall for way, result in searched.items()},
    )


def check_near_ways(ways: Sequence[str]) -> None:
    """Raise RequestError for a way that does not exist, and for texts alone."""
    for way in ways:
        if way not in NEAR_WAYS:
            raise RequestError(
                f"no way {way!r} to find near duplicates",
                f"{did_you_mean(way, NEAR_WAYS)}there are: {', '.join(NEAR_WAYS)}",
            )
    if set(ways) == {"text"}:
        raise RequestError(
            "episodes with one text are no near duplicates", "give signals or pixels beside text"
        )


def read_rows(stores: Stores, ids: Collection[str], columns: Sequence[str]) -> pa.Table:
    """Columns of those of some episodes that the workspace has, with their ids, by id. Raises RequestError."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = list(dict.fromkeys(["episode_id", *columns]))
    listed = pa.array(ids if isinstance(ids, list) else list(ids), pa.string())
    episodes = stores.tables.episodes
    batches = [batch.filter(pc.is_in(batch["episode_id"], listed)) for batch in episodes.scan(names)]
    return pa.Table.from_batches(batches, episodes.schema(names)).sort_by("episode_id")


Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _WayPairs:
    """What one way tells: the score of each pair of positions, and which episodes (N,) it can compare."""

    scores: Mapping[Pair, float]
    comparable: NDArray[np.bool_]
    recall: float


def _summarise_copies(copies: CourseCopies) -> _WayPairs:
    pairs = zip(map(tuple, copies.pairs.tolist()), copies.scores.tolist(), strict=True)
    bounds = [search.recall_bounds[0] for search in copies.searches]
    return _WayPairs(scores=dict(pairs), comparable=copies.comparable, recall=min(bounds, default=1.0))


def _combine_ways(searched: Mapping[str, _WayPairs], *, is_fallback: bool) -> dict[Pair, tuple[str, float]]:
    """The pairs on which the ways agree, or with `is_fallback` those of the first way that can compare both."""
    near: dict[Pair, tuple[str, float]] = {}
    for number, (way, result) in enumerate(searched.items()):
        for pair, score in result.scores.items():
            others = [name for name in searched if name != way and _can_compare(searched[name], pair)]
            earlier = [name for name in others if list(searched).index(name) < number]
            deciding = earlier[:1] if is_fallback else others
            if all(pair in searched[name].scores for name in deciding):
                near.setdefault(pair, (way, score))
    return near


def _can_compare(result: _WayPairs, pair: Pair) -> bool:
    return bool(result.comparable[pair[0]] and result.comparable[pair[1]])


def _equal_contents(hashes: Sequence[str]) -> Iterator[Pair]:
    """Each later position with the first of the same content."""
    first_by_value: dict[str, int] = {}
    for position, content in enumerate(hashes):
        first = first_by_value.setdefault(content, position)
        if content and first != position:
            yield first, position


def _keep_equal_texts(
    stores: Stores, near: Mapping[Pair, tuple[str, float]], texts: Sequence[str]
) -> dict[Pair, tuple[str, float]]:
    """Those pairs whose instructions are alike, by their vectors; where one has none, equal words or no words."""
    spaces = [space for space in list_embedding_spaces(stores) if space in stores.tables.text_spaces()]
    needed_texts = {texts[position] for pair in near for position in pair if texts[position]}
    vectors = stores.tables.texts(spaces[-1]).read(needed_texts) if spaces and needed_texts else {}

    def are_alike(first: str, second: str) -> bool:
        if not first or not second or first == second:
            return True
        ours, theirs = vectors.get(first), vectors.get(second)
        return ours is not None and theirs is not None and float(ours @ theirs) >= _TEXT_CUT

    return {pair: evidence for pair, evidence in near.items() if are_alike(texts[pair[0]], texts[pair[1]])}


def _search_pixels(stores: Stores, ids: Sequence[str], seed: int, *, in_doubt: bool) -> _WayPairs:
    """Episodes whose videos are copies; where frames of one cannot be decoded, by the vectors of both."""
    most_different = MOST_DIFFERENT_IN_DOUBT if in_doubt else MOST_DIFFERENT
    decoded = _summarise_copies(find_video_copies(stores, ids, most_different, seed))
    if decoded.comparable.all():
        return decoded
    embedded = _search_vectors(stores, ids, seed, _FRAME_CUT_IN_DOUBT if in_doubt else _FRAME_CUT)
    others = {pair: score for pair, score in embedded.scores.items() if not _can_compare(decoded, pair)}
    return _WayPairs(
        scores={**others, **decoded.scores},
        comparable=decoded.comparable | embedded.comparable,
        recall=min(decoded.recall, embedded.recall),
    )


def _search_vectors(stores: Stores, ids: Sequence[str], seed: int, cut: float) -> _WayPairs:
    """Episodes whose frames are alike, by the vectors of the newest embedding space; none without one."""
    import numpy as np

    spaces = list(list_embedding_spaces(stores))
    comparable = np.zeros(len(ids), bool)
    if not spaces:
        return _WayPairs(scores={}, comparable=comparable, recall=1.0)
    table = stores.tables.vectors(spaces[-1])
    position_of = {episode_id: position for position, episode_id in enumerate(ids)}
    with tempfile.TemporaryDirectory(prefix="ares-frames-") as folder:
        frames = _FrameFile(Path(folder), table.scan(), position_of)
        comparable[frames.positions] = True
        if not len(frames.positions):
            return _WayPairs(scores={}, comparable=comparable, recall=1.0)
        near = find_near_pairs(frames.mean_vectors(), _EPISODE_CUT, seed=seed)
        scores = {}
        for first, second in zip(near.first.tolist(), near.second.tolist(), strict=True):
            score = _compare_frames(frames[first], frames[second])
            if score >= cut:
                pair = sorted((int(frames.positions[first]), int(frames.positions[second])))
                scores[pair[0], pair[1]] = score
    return _WayPairs(scores=scores, comparable=comparable, recall=near.recall_bounds[0])


class _FrameFile:
    """The frame vectors of some episodes, in a file, episode by episode.

    Attributes:
        positions: (E,) position of each episode that has vectors.
    """

    def __init__(
        self,
        folder: Path,
        batches: Iterable[tuple[list[str], NDArray[np.float32]]],
        position_of: Mapping[str, int],
    ) -> None:
        import numpy as np

        owners, total, width = [np.empty(0, np.int64)], 0, 0
        with (folder / "read").open("wb") as file:
            for ids, vectors in batches:
                rows = np.array([position_of.get(episode_id, -1) for episode_id in ids], np.int64)
                kept = vectors[rows >= 0]
                file.write(kept.astype(np.float16).tobytes())
                owners.append(rows[rows >= 0])
                total, width = total + len(kept), vectors.shape[1]
        owner = np.concatenate(owners)
        self._order = np.argsort(owner, kind="stable")
        self.positions, self._starts = np.unique(owner[self._order], return_index=True)
        self._ends = np.append(self._starts[1:], total)
        if total:
            self._vectors = np.memmap(folder / "read", np.float16, "r", shape=(total, width))
            sample = self._vectors[:: max(1, total // 10_000)].astype(np.float32)
            self._centre = sample.mean(axis=0)

    def __getitem__(self, number: int) -> NDArray[np.float32]:
        """Unit vectors (F, D) of the frames of one episode, without the mean of all frames."""
        import numpy as np

        rows = self._order[self._starts[number] : self._ends[number]]
        return _normalise_rows(self._vectors[rows].astype(np.float32) - self._centre)

    def mean_vectors(self) -> NDArray[np.float16]:
        """Unit vectors (E, D) of the mean frame of each episode."""
        import numpy as np

        means = np.empty((len(self.positions), self._vectors.shape[1]), np.float16)
        for number in range(len(means)):
            means[number] = _normalise_rows(self[number].mean(axis=0, keepdims=True))[0]
        return means


def _normalise_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = vectors / np.maximum(lengths, 1e-6)
    return unit


def _compare_frames(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    """How alike each frame of the shorter episode is to the frame of the other that is most like it, in the mean."""
    shorter, longer = sorted((first, second), key=len)
    return float((shorter @ longer.T).max(axis=1).mean())


def choose_kept(
    stores: Stores, duplicates: NearDuplicates, keep: str = DEFAULT_KEEP
) -> dict[str, tuple[str, CopyPair]]:
    """For each episode that is left out as a copy: the one that is kept in its place, and a pair that says why.

    Args:
        stores: Stores of the workspace.
        duplicates: The groups.
        keep: Column; of each group the episode with its largest value is kept, or with "-" before it the smallest.
            A missing value comes last, and of equal ones the smallest id is kept.

    Raises:
        RequestError: The column does not exist.
    """
    groups = duplicates.groups()
    column = keep.removeprefix("-")
    rows = read_rows(stores, [episode_id for group in groups for episode_id in group], [column])
    values = dict(zip(rows["episode_id"].to_pylist(), rows[column].to_pylist(), strict=True))
    pair_of: dict[str, CopyPair] = {}
    for pair in duplicates.pairs:
        pair_of.setdefault(pair.first, pair)
        pair_of.setdefault(pair.second, pair)
    left_out = {}
    for group in groups:
        known = [episode_id for episode_id in group if values[episode_id] is not None]
        best = (min if keep.startswith("-") else max)((values[id] for id in known), default=None)
        kept = next((id for id in group if values[id] == best), group[0])
        left_out.update({id: (kept, pair_of[id]) for id in group if id != kept})
    return left_out
