"""Which episodes are copies of each other, which only move alike, and which copy of a group is kept."""

from __future__ import annotations

import hashlib
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ares.curation.signal_copies import SignalCopies, find_signal_copies
from ares.curation.video_copies import SmallVideos
from ares.errors import MediaError
from ares.media import bytes_per_frame, frames_at
from ares.store import batched

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.episode import Episode, Json
    from ares.store import Stores

    Pair = tuple[int, int]


Item = TypeVar("Item", int, str)
COPY_WAYS = ("content", "signals", "pixels")
# What is known where no pair of copies is on two sides.
WHAT_IS_KNOWN = (
    "found by frames and signals; other signals or speeds, crops over 8 % and large overlays are not found"
)
# Shares of what moves in a video by which a copy may differ: one that is left out, and one that is only linked.
_MOST_DIFFERENT, _MOST_DIFFERENT_IN_DOUBT = 0.05, 0.12
# A copy with less than this part of the longest motion of its group is a part of it, and not kept.
_LEAST_OF_MOTION = 0.9
_EPISODES_AT_ONCE = 1_000
# Scenes before which one motion was recorded, with which a further recording of it is compared.
_MOST_SCENES = 50


@dataclass(frozen=True, slots=True)
class CopyPair:
    """Two episodes that are copies, or of which a split must not part one from the other.

    Attributes:
        first: Id of one; the smaller of the two.
        second: Id of the other.
        way: What told, of `COPY_WAYS`: "content" where records, or signals and three frames, are equal.
        score: 1 for equal ones; less for near ones.
        is_copy: Whether one of both may be left out; else they are only linked: they move alike, but their pictures
            differ or are in doubt.
        is_mirrored: Whether one shows the other mirrored left to right.
    """

    first: str
    second: str
    way: str
    score: float
    is_copy: bool = True
    is_mirrored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The copies among some episodes.

    Attributes:
        ids: The episodes, sorted.
        linked: All pairs, by ids: copies, and what a split keeps together. Not every pair of a group needs to be one.
        compared: Number of episodes that could be compared, by way.
        moving: By id of an episode in a pair the tenths of a second from its first to its last motion.
    """

    ids: Sequence[str]
    linked: Sequence[CopyPair]
    compared: Mapping[str, int]
    moving: Mapping[str, int]

    @property
    def pairs(self) -> list[CopyPair]:
        """The pairs of copies."""
        return [pair for pair in self.linked if pair.is_copy]

    def groups(self) -> list[list[str]]:
        """Episodes that hang together as copies, sorted; episodes without a copy are left out."""
        links = LinkedItems(self.ids)
        for pair in self.pairs:
            links.link(pair.first, pair.second)
        return [members for members in links.groups() if len(members) > 1]

    def to_json(self) -> dict[str, Json]:
        """Counts, for reports and recipes."""
        ways = [pair.way for pair in self.pairs]
        return {
            "pairs": {way: ways.count(way) for way in COPY_WAYS if way in ways},
            "linked": len(self.linked) - len(ways),
            "groups": len(self.groups()),
            "compared": dict(self.compared),
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


def read_rows(stores: Stores, ids: Collection[str], columns: Sequence[str]) -> pa.Table:
    """Columns of those of some episodes that the workspace has, with their ids, by id. Raises RequestError."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = list(dict.fromkeys(["episode_id", *columns]))
    listed = pa.array(ids if isinstance(ids, list) else list(ids), pa.string())
    episodes = stores.tables.episodes
    batches = [batch.filter(pc.is_in(batch["episode_id"], listed)) for batch in episodes.scan(names)]
    return pa.Table.from_batches(batches, episodes.schema(names)).sort_by("episode_id")


def find_copies(stores: Stores, ids: Collection[str]) -> Copies:
    """The copies among some episodes, and those that only move alike.

    Equal records are copies, and so are episodes whose signals and three frames of each camera are equal. Near copies
    are found by the motion of states and actions, and by decoded pictures. Pictures are decoded of those that signals
    found, and of all episodes where some have no signals to compare. What both tell must agree: else the two are only
    linked.

    Args:
        stores: Stores of the workspace.
        ids: Ids of the episodes; those that are not in the workspace are left out.
    """
    stores.catch_up()
    rows = read_rows(stores, ids, ["content_hash", "dataset"])
    known: list[str] = rows["episode_id"].to_pylist()
    with tempfile.TemporaryDirectory(prefix="ares-copies-") as folder:
        signals = find_signal_copies(stores, known, rows["dataset"].to_pylist(), Path(folder))
        equal = {*_equal_values(rows["content_hash"].to_pylist()), *_equal_recordings(stores, known, signals)}
        waiting = [pair for pair in signals.matches if pair not in equal]
        needs_all = len(signals.layouts) < len(known)
        shown = (
            range(len(known)) if needs_all else sorted({position for pair in waiting for position in pair})
        )
        videos = SmallVideos(stores, known, shown, Path(folder))
        pairs = {pair: CopyPair(*_name_pair(known, pair), "content", 1.0) for pair in equal}
        pairs.update((pair, _judge_signals(signals, pair, videos, known)) for pair in waiting)
        pairs.update(_compare_scenes(signals, videos, pairs, known))
        for first, second, shifts in videos.propose_pairs() if needs_all else ():
            pair = first, second
            if pair not in pairs:
                video = videos.compare(first, second, shifts)
                if video.different <= _MOST_DIFFERENT_IN_DOUBT:
                    pairs[pair] = CopyPair(
                        *_name_pair(known, pair),
                        "pixels",
                        round(1.0 - video.different, 4),
                        is_copy=video.different <= _MOST_DIFFERENT and not signals.shared_layouts(pair),
                        is_mirrored=video.is_mirrored,
                    )
    moving = {**videos.moving, **signals.moving}
    return Copies(
        ids=known,
        linked=[pair for _, pair in sorted(pairs.items())],
        compared={"signals": len(signals.layouts), "pixels": len(videos.moving)},
        moving={known[item]: moving[item] for pair in pairs for item in pair if item in moving},
    )


def _name_pair(ids: Sequence[str], pair: Pair) -> tuple[str, str]:
    return ids[pair[0]], ids[pair[1]]


def _judge_signals(signals: SignalCopies, pair: Pair, videos: SmallVideos, ids: Sequence[str]) -> CopyPair:
    """Whether two episodes of one motion are copies: by their pictures; where there are none by their states."""
    match, video, is_copy = signals.matches[pair], None, False
    if pair[0] in videos and pair[1] in videos:
        video = videos.compare(*pair, [match.shift])
        is_copy = video.different <= _MOST_DIFFERENT
    elif videos.unreadable.isdisjoint(pair):
        has_states = any(layout.startswith("state ") for layout in signals.shared_layouts(pair))
        is_copy = match.kind == "state" or not has_states
    is_copy = is_copy and pair not in signals.commanded_again
    return CopyPair(
        *_name_pair(ids, pair),
        "signals",
        round(match.score, 4),
        is_copy=is_copy,
        is_mirrored=video is not None and is_copy and video.is_mirrored,
    )


def _compare_scenes(
    signals: SignalCopies, videos: SmallVideos, pairs: Mapping[Pair, CopyPair], ids: Sequence[str]
) -> dict[Pair, CopyPair]:
    """Copies among episodes of one motion that no window proposed with each other.

    Of many equal motions each is proposed with few others, whose pictures may be of another scene. So one of each
    group of copies is compared with one of each other group.
    """
    new_pairs = {}
    links = LinkedItems(ids)
    for copy in pairs.values():
        if copy.is_copy:
            links.link(copy.first, copy.second)
    position_of = {episode_id: position for position, episode_id in enumerate(ids)}
    representatives = {position_of[group[0]] for group in links.groups()}
    # By how many steps each episode of one motion lies later.
    same_motion = signals.matches.keys() - signals.commanded_again
    for offsets in _add_up({pair: -signals.matches[pair].shift for pair in sorted(same_motion)}):
        scenes: list[int] = []
        for position in sorted(offsets.keys() & representatives):
            if position not in videos:
                continue
            for scene in scenes:
                pair = scene, position
                if pair in pairs:
                    continue
                video = videos.compare(*pair, [offsets[scene] - offsets[position]])
                if video.different <= _MOST_DIFFERENT:
                    score = round(1.0 - video.different, 4)
                    new_pairs[pair] = CopyPair(
                        *_name_pair(ids, pair), "pixels", score, is_mirrored=video.is_mirrored
                    )
                    break
            else:
                scenes = [*scenes, position][:_MOST_SCENES]
    return new_pairs


def _add_up(steps: Mapping[tuple[Item, Item], int]) -> Iterator[dict[Item, int]]:
    """Items that hang together, directly or by others between them, with the sum of the steps to each."""
    neighbours: defaultdict[Item, list[tuple[Item, int]]] = defaultdict(list)
    for (first, second), step in steps.items():
        neighbours[first].append((second, step))
        neighbours[second].append((first, -step))
    while neighbours:
        sums = {next(iter(neighbours)): 0}
        waiting = list(sums)
        while waiting:
            item = waiting.pop()
            for other, step in neighbours.pop(item):
                if other not in sums:
                    sums[other] = sums[item] + step
                    waiting.append(other)
        yield sums


def _equal_values(values: Iterable[object]) -> Iterator[Pair]:
    """Each later position with the first of the same value; empty values are not equal."""
    first_by_value: dict[object, int] = {}
    for position, value in enumerate(values):
        first = first_by_value.setdefault(value, position)
        if value and first != position:
            yield first, position


def _equal_recordings(stores: Stores, ids: Sequence[str], signals: SignalCopies) -> Iterator[Pair]:
    """Episodes whose signals are equal, and three frames of each camera; see `_equal_values`."""
    digests = [signals.digests.get(position) for position in range(len(ids))]
    suspects = sorted({position for pair in _equal_values(digests) for position in pair})
    hashes = dict[int, bytes]()
    for chunk in batched(suspects, _EPISODES_AT_ONCE):
        episodes = stores.tables.episodes.get([ids[position] for position in chunk])
        for position, episode in zip(chunk, episodes, strict=True):
            frames = _hash_pictures(episode)
            hashes[position] = frames and frames + signals.digests[position]
    for first, second in _equal_values(hashes.values()):
        yield suspects[first], suspects[second]


def _hash_pictures(episode: Episode) -> bytes:
    """A hash of the first, the middle and the last frame of each camera; b"" without pictures."""
    digests = []
    for camera in episode.cameras:
        media = camera.media
        seconds = [number / media.rate_hz for number in (0, media.num_frames // 2, media.num_frames - 1)]
        try:
            digests.append(hashlib.blake2b(frames_at(media, seconds).tobytes(), digest_size=16).digest())
        except MediaError:
            return b""
    return b"".join(sorted(digests))


def choose_kept(stores: Stores, copies: Copies) -> dict[str, tuple[str, CopyPair]]:
    """For each episode that is left out as a copy: the one that is kept in its place, and a pair that says why.

    The pair is that of both where there is one, else one of the episode with another of the group.

    Of a group the best is kept: not mirrored, no mere part of another, with more pixels, with more bytes a pixel, and
    ingested first.
    """
    groups, pairs = copies.groups(), copies.pairs
    members = [episode_id for group in groups for episode_id in group]
    rows = read_rows(stores, members, ["ingested", "dataset", "version", "split", "key"])
    orders = {row.pop("episode_id"): tuple(map(str, row.values())) for row in rows.to_pylist()}
    mirrored = _find_mirrored(pairs)
    pair_of = {id: pair for pair in reversed(pairs) for id in (pair.first, pair.second)}
    pair_of_both = {frozenset((pair.first, pair.second)): pair for pair in pairs}
    pictures = {
        episode.episode_id: _rank_pictures(episode)
        for chunk in batched(members, _EPISODES_AT_ONCE)
        for episode in stores.tables.episodes.get(chunk)
    }
    left_out = {}
    for group in groups:
        longest = max(copies.moving.get(id, 0) for id in group)
        ranks = {
            id: (
                id in mirrored,
                copies.moving.get(id, longest) < _LEAST_OF_MOTION * longest,
                *pictures[id],
                orders[id],
            )
            for id in group
        }
        kept = min(group, key=lambda id: ranks[id])
        for id in group:
            if id != kept:
                left_out[id] = kept, pair_of_both.get(frozenset((id, kept)), pair_of[id])
    return left_out


def _find_mirrored(pairs: Iterable[CopyPair]) -> set[str]:
    """Of each group those whose pictures are the other way round than those of most; none where halves differ."""
    mirrored: set[str] = set()
    for turns in _add_up({(pair.first, pair.second): int(pair.is_mirrored) for pair in pairs}):
        turned = {id for id, count in turns.items() if count % 2}
        if 2 * len(turned) != len(turns):
            mirrored |= min(turned, turns.keys() - turned, key=len)
    return mirrored


def _rank_pictures(episode: Episode) -> tuple[float, float]:
    """Pixels of all cameras, and stored bytes a pixel, both negative: the best comes first."""
    pixels = sum(camera.width * camera.height for camera in episode.cameras)
    size = sum(bytes_per_frame(camera.media) for camera in episode.cameras)
    return -float(pixels), -size / max(pixels, 1)
