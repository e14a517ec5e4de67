"""Proposes the plan of a merge: which cameras, dimensions, rates, splits and tasks of several sources are the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, permutations
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.console import count_are
from ares.contract import (
    AGREEMENT_EPISODES,
    ROTATION_FORMS,
    ClashError,
    DatasetKey,
    FeatureProfile,
    compare_sources,
    compare_tasks,
    find_contracts_of_episodes,
    parse_conversions,
    read_contracts,
)
from ares.curation import Sets
from ares.episode import DEPTH_CAMERAS, Role
from ares.errors import AresError, RequestError
from ares.export.base import MASK_SIGNALS, PROGRESS, SAMPLE_WEIGHT
from ares.export.merge_apply import MASK_KINDS, MergeApplier, MergeConverter, unique_names
from ares.export.merge_plan import (
    ASK,
    DROP,
    Confirmation,
    FeatureGiver,
    MergePlan,
    NameMatch,
    PlannedCamera,
    PlannedSource,
    SourceKey,
    match_dimensions,
    match_features,
    name_features,
    pad_entries,
    pad_missing,
    plan_faults,
    shorten_names,
)
from ares.export.retime import round_rate
from ares.media import mean_views
from ares.rubric import group_wordings
from ares.signals import EpisodeSignals, episode_signals, name_tokens
from ares.store import TempDatabase, ids_filter

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.contract import Agreement, Clash, LayoutContract, SignalName
    from ares.curation import CurationSet
    from ares.episode import Episode, Trajectory
    from ares.store import Stores


_BATCH_IDS = 10_000
_COLUMNS = ("episode_id", "format", "dataset", "version", "split", "rate_hz", "rate_source", "instruction",
            "state_names", "action_names", "cameras")  # fmt: skip
_SOURCES = f"""
SELECT format, dataset, version, split, rate_hz, rate_source, state_names, action_names,
       list_transform(cameras, lambda c: struct_pack(name := c.name, role := c.role, width := c.width,
                                                height := c.height)) AS views,
       count(*) AS episodes, min(episode_id, {AGREEMENT_EPISODES}) AS sample
FROM new_rows GROUP BY ALL
"""
_TEXTS = """
SELECT format, dataset, version, instruction, count(*) AS episodes FROM new_rows WHERE instruction != '' GROUP BY ALL
"""
# Texts beyond so many are no tasks of a few wordings.
_MOST_TEXTS = 2_000
# What splits are called.
_SPLITS = {"valid": "val", "validation": "val", "dev": "val", "training": "train", "testing": "test"}
# A view is the mean of the small grey pictures of so many episodes.
_VIEW_EPISODES = 3
# What ingestion warns of where values are not, or not exactly, in the workspace.
_LOSSES = re.compile(r"left out(?!: it holds depth)|not stored|float32 rounds|lose digits")
# Cameras look exchanged, or like one another, from these correlations of their views on.
_EXCHANGED_GAIN, _SAME_VIEW = 0.3, 0.7
# Of cameras that look alike, where a correlation gains little: how far views are from 1 in their places, and how many
# times nearer in the other order.
_FAR_VIEW, _TIMES_NEARER = 0.1, 4.0
_MOST_EXCHANGED = 6
_UNNAMED, _LISTED = "mask without names", 6
# Signals that formats have separate places for.
_NO_FEATURES = frozenset(
    {"is_first", "is_last", "is_terminal", "discount", SAMPLE_WEIGHT, PROGRESS, *MASK_SIGNALS}
)


@dataclass(slots=True)
class _SourceFacts:
    """What is known of the episodes of one source.

    Attributes:
        key: What distinguishes it.
        cameras: Role, width and height of each camera; of several sizes that of most episodes.
        episodes: Their number.
        rates: Rates as they are written, with the number of episodes.
        splits: Names of their splits.
        sample: Ids of some episodes.
        views: (D,) normalised view of each camera, where pictures were looked at.
        features: Signals besides state, action and reward of the sampled episodes.
        parts: Number of the sampled episodes with a reward, depth of a camera, or a mask.
        sizes: Every width and height of each camera, that of most episodes first.
    """

    key: SourceKey
    cameras: dict[str, tuple[Role, int, int]]
    episodes: int = 0
    rates: dict[float, int] = field(default_factory=dict)
    splits: dict[str, None] = field(default_factory=dict)
    sample: list[str] = field(default_factory=list)
    views: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    features: dict[str, FeatureProfile] = field(default_factory=dict)
    parts: Counter[str] = field(default_factory=Counter)
    sizes: dict[str, dict[tuple[int, int], None]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{self.key.dataset} {self.key.version}".strip()


def propose_merge_plan(stores: Stores, selection: CurationSet) -> MergePlan:
    """The plan of a set's merge into one dataset; what the data do not say is a question in it.

    The sources with most episodes give the merged dataset its cameras and its dimensions. Names that are the same are
    mapped; what is concluded from roles, views, kinds and order has to be confirmed.

    Args:
        stores: Stores of the workspace.
        selection: The set.

    Raises:
        RequestError: The set has no members that the workspace has.
    """
    with TempDatabase() as database:
        _collect_rows(database, stores, selection)
        sources = _read_sources(database)
        texts = database.query("SELECT * REPLACE (episodes::BIGINT AS episodes) FROM texts")
    if not sources:
        raise RequestError("the set has no episodes to merge", selection.label)
    for source in sources:
        source.views.update(mean_views(stores.tables.episodes.get(source.sample[:_VIEW_EPISODES])))
    samples = _SampledSignals(stores, sources)
    samples.collect_features()
    contracts = find_contracts_of_episodes(stores, Sets(stores.annotations).ids(selection))
    draft = _Draft(selection.label, sources, contracts)
    draft.group_texts(texts.to_pylist())
    for key, label in {DatasetKey(*source.key[:3]): source.label for source in sources}.items():
        lost = [text for text in read_contracts(stores.annotations, key).warnings if _LOSSES.search(text)]
        if lost:
            draft.notes.append(
                f"{label} was ingested without: {'; '.join(lost[:_LISTED])}{' ...' * (len(lost) > _LISTED)}"
            )
    return _with_conversions(draft.plan(), contracts, samples)


def _collect_rows(database: TempDatabase, stores: Stores, selection: CurationSet) -> None:
    """Group the rows of a set by source and by text; no row is kept."""
    members = Sets(stores.annotations).members(selection)
    ids = (member.partition(" ")[0] for member in members)
    while batch := list(dict.fromkeys(islice(ids, _BATCH_IDS))):
        rows = stores.tables.episodes.read_columns(_COLUMNS, ids_filter(batch))
        for name, query in (("sources", _SOURCES), ("texts", _TEXTS)):
            database.insert_query(name, query, rows.schema, rows.to_batches())


def _read_sources(database: TempDatabase) -> list[_SourceFacts]:
    """The sources of a set, the one with most episodes first."""
    rows: pa.Table = database.query("SELECT * FROM sources ORDER BY episodes DESC, sample[1]")
    by_key: dict[SourceKey, _SourceFacts] = {}
    for row in rows.to_pylist():
        cameras = {view["name"]: (view["role"], view["width"], view["height"]) for view in row["views"] or ()}
        key = SourceKey(
            row["format"],
            row["dataset"],
            row["version"],
            tuple(sorted(cameras)),
            unique_names(row["state_names"] or ()),
            unique_names(row["action_names"] or ()),
        )
        source = by_key.setdefault(key, _SourceFacts(key, cameras))
        rate = round_rate(row["rate_hz"], is_measured=row["rate_source"] == "measured")
        source.rates[rate] = source.rates.get(rate, 0) + row["episodes"]
        source.episodes += row["episodes"]
        source.splits[row["split"]] = None
        for name, (_, *size) in cameras.items():
            source.sizes.setdefault(name, {})[size[0], size[1]] = None
        source.sample = sorted({*source.sample, *row["sample"]})[:AGREEMENT_EPISODES]
    return sorted(by_key.values(), key=lambda source: (-source.episodes, source.key))


def _view_likeness(first: NDArray[np.float64] | None, second: NDArray[np.float64] | None) -> float:
    """Correlation of two views, from -1 to 1; 0 where one was not seen."""
    return 0.0 if first is None or second is None else float((first * second).mean())


def match_cameras(goal: _SourceFacts, source: _SourceFacts) -> NameMatch:
    """Which camera of the merged dataset each camera of a source is: by name, else by role, else by view.

    A plan asks about cameras of one name whose views fit another one's far better, and about all that nothing tells.
    """
    shared = [name for name in source.cameras if name in goal.cameras]
    exchanged = _exchanged_cameras(goal, source, shared)
    mapping = {name: ASK if name in exchanged else name for name in shared}
    notes: list[str] = []
    if exchanged:
        moves = ", ".join(f"{name} looks like {other}" for name, other in exchanged.items())
        notes.append(f"cameras of {source.label} look exchanged against {goal.label}: {moves}")
    free = [name for name in goal.cameras if name not in shared]
    rest = [name for name in source.cameras if name not in shared]
    for name in rest:
        candidate, reason = _find_camera(goal, source, name, free, rest)
        if candidate:
            free.remove(candidate)
            notes.append(f"camera {name} of {source.label} is {candidate} of {goal.label}, {reason}")
        mapping[name] = candidate or (ASK if free else DROP)
    if dropped := [name for name, choice in mapping.items() if choice == DROP]:
        notes.append(f"cameras of {source.label} have no counterpart and are dropped: {', '.join(dropped)}")
    return NameMatch(mapping, *pad_missing("camera", source.label, mapping, list(goal.cameras), notes))


def _find_camera(
    goal: _SourceFacts, source: _SourceFacts, name: str, free: Sequence[str], rest: Sequence[str]
) -> tuple[str, str]:
    """The camera of the merged dataset that a camera is, and what tells so; "" where nothing does."""
    tokens = {candidate for candidate in free if name_tokens(candidate) == name_tokens(name)}
    if len(tokens) == 1:
        return tokens.pop(), "by its name"
    role = source.cameras[name][0]
    same_role = [candidate for candidate in free if goal.cameras[candidate][0] == role]
    rivals = [other for other in rest if source.cameras[other][0] == role]
    if role != "other" and len(same_role) == len(rivals) == 1:
        return same_role[0], f"by its role, {role}"
    alike = [
        candidate
        for candidate in free
        if _view_likeness(goal.views.get(candidate), source.views.get(name)) >= _SAME_VIEW
    ]
    return (alike[0], "by its view") if len(alike) == 1 else ("", "")


def _exchanged_cameras(goal: _SourceFacts, source: _SourceFacts, names: Sequence[str]) -> dict[str, str]:
    """Cameras of both sources whose views fit better in another order, with the camera that each looks like."""
    seen = [name for name in names if name in goal.views and name in source.views][:_MOST_EXCHANGED]
    likeness = {
        (name, other): _view_likeness(source.views[name], goal.views[other])
        for name in seen
        for other in seen
    }
    best = max(
        permutations(seen),
        key=lambda order: sum(likeness[pair] for pair in zip(seen, order, strict=True)),
        default=(),
    )
    moved = {name: other for name, other in zip(seen, best, strict=True) if name != other}
    if not moved:
        return {}
    kept_gap = 1 - sum(likeness[name, name] for name in moved) / len(moved)
    moved_gap = 1 - sum(likeness[pair] for pair in moved.items()) / len(moved)
    is_nearer = kept_gap >= max(_FAR_VIEW, _TIMES_NEARER * moved_gap)
    return moved if is_nearer or kept_gap - moved_gap >= _EXCHANGED_GAIN else {}


@dataclass(slots=True)
class _Draft:
    """A plan while it is made.

    Attributes:
        label: The set.
        sources: Its sources, the one with most episodes first.
        contracts: What their signals mean.
        notes: What has to be confirmed.
        tasks: Texts by task.
        givers: Who gives each signal of the merged dataset besides state, action and reward.
        names: What such signals of sources are called there.
    """

    label: str
    sources: list[_SourceFacts]
    contracts: Sequence[LayoutContract]
    notes: list[str] = field(default_factory=list)
    tasks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    givers: dict[str, FeatureGiver] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def plan(self) -> MergePlan:
        """The plan, without conversions."""
        for source in self.sources:
            for name, goal in name_features(source.features, self.names).items():
                self.givers.setdefault(goal, FeatureGiver(source.label, name, source.features[name]))
        cameras = next((source for source in self.sources if source.key.cameras), self.sources[0])
        states = next((source for source in self.sources if source.key.state), self.sources[0])
        actions = next((source for source in self.sources if source.key.action), self.sources[0])
        planned = [self._plan_source(source, cameras, states, actions) for source in self.sources]
        sizes = {
            name: PlannedCamera(role=role, width=max(width, 2), height=max(height, 2))
            for name, (role, width, height) in cameras.cameras.items()
        }
        self._note_sizes(planned, sizes)
        fps = self._choose_rate()
        self.notes += _describe_samples(self.sources)
        return MergePlan(
            set=self.label,
            fps=fps,
            cameras=sizes,
            state=states.key.state,
            action=actions.key.action,
            features={goal: giver.profile.names for goal, giver in self.givers.items()},
            masks=tuple(
                kind
                for kind, name in MASK_KINDS.items()
                if any(source.parts[name] for source in self.sources)
            ),
            tasks=self.tasks,
            sources=tuple(planned),
            confirm=tuple(Confirmation(text=text) for text in dict.fromkeys(self.notes)),
        )

    def group_texts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Offer groups of texts as tasks, and note what may be another wording of a task of the first source."""
        counts, by_source = Counter[str](), dict[tuple[str, str, str], Counter[str]]()
        for row in rows:
            counts[row["instruction"]] += row["episodes"]
        self.tasks = _group_texts(counts, self.notes)
        names = {text: task for task, texts in self.tasks.items() for text in texts}
        for row in rows:
            texts = by_source.setdefault((row["format"], row["dataset"], row["version"]), Counter())
            texts[names.get(row["instruction"], row["instruction"])] += row["episodes"]
        labels = {tuple(source.key[:3]): source.label for source in self.sources}
        ordered = sorted(by_source.items(), key=lambda item: -item[1].total())
        (first, tasks), *others = ordered or [(("", "", ""), Counter())]
        for key, texts in others:
            self.notes += compare_tasks(tasks, texts, (labels[first], labels[key]))

    def _plan_source(
        self, source: _SourceFacts, cameras: _SourceFacts, states: _SourceFacts, actions: _SourceFacts
    ) -> PlannedSource:
        goals = name_features(source.features, self.names)
        features = {name: (goals[name], profile) for name, profile in source.features.items()}
        matches = {
            "camera": match_cameras(cameras, source),
            "state": self._match_signal("state", states, source),
            "action": self._match_signal("action", actions, source),
            "feature": match_features(self.givers, features, source.label),
        }
        for match in matches.values():
            self.notes += match.notes
        splits = {name: _SPLITS.get(name, name) for name in source.splits}
        self.notes += [
            f"split {name} of {source.label} is {goal}" for name, goal in splits.items() if name != goal
        ]
        return PlannedSource(
            dataset=source.key.dataset,
            format=source.key.format,
            version=source.key.version,
            episodes=source.episodes,
            rate_hz=tuple(sorted(source.rates)),
            cameras=matches["camera"].mapping,
            state=matches["state"].mapping,
            action=matches["action"].mapping,
            rotations=(*matches["state"].rotations, *matches["action"].rotations),
            features=matches["feature"].mapping,
            pad=tuple(pad_entries(matches)),
            splits={name: goal for name, goal in splits.items() if name != goal},
        )

    def _match_signal(self, signal: SignalName, goal: _SourceFacts, source: _SourceFacts) -> NameMatch:
        names, others = (getattr(facts.key, signal) for facts in (goal, source))
        forms = (self._rotation_form(goal, signal), self._rotation_form(source, signal))
        return match_dimensions(signal, names, others, (goal.label, source.label), forms)

    def _rotation_form(self, source: _SourceFacts, signal: SignalName) -> str:
        """What the rotation of a source is in its contract; ASK where that is not known, "" for a velocity."""
        key = (*source.key[:3], source.key.state, source.key.action)
        contract = next(
            (
                layout.contract
                for layout in self.contracts
                if key == (*layout.key, unique_names(layout.state_names), unique_names(layout.action_names))
            ),
            None,
        )
        group = contract.signal(f"{signal}.rotation") if contract is not None else None
        if group is None or group.estimate("mode").value == "velocity":
            return "" if group else ASK
        known = (group.estimate("rotation").value, group.estimate("unit").value)
        return next((form for form, pair in ROTATION_FORMS.items() if pair in (known, (known[0], ""))), ASK)

    def _note_sizes(self, planned: Sequence[PlannedSource], sizes: Mapping[str, PlannedCamera]) -> None:
        """Note the cameras whose pictures are made to fit another size, which encodes them again."""
        for source, facts in zip(planned, self.sources, strict=True):
            for name, goal in source.cameras.items():
                if (size := sizes.get(goal)) is None:
                    continue
                self.notes += [
                    f"camera {name} of {source.label} has {width}x{height} pixels"
                    f"{' in some episodes' if len(facts.sizes[name]) > 1 else ''}: fitted into "
                    f"{size.width}x{size.height} with its sides kept, and encoded again"
                    for width, height in facts.sizes[name]
                    if (width, height) != (size.width, size.height)
                ]

    def _choose_rate(self) -> float | None:
        """The lowest rate, where sources have several: no step is written twice."""
        rates = {rate: None for source in self.sources for rate in source.rates}
        if len(rates) < 2:
            return None
        fps = min(rates)
        stated = (
            f"{', '.join(f'{rate:g}' for rate in sorted(source.rates))} Hz in {source.label}"
            for source in self.sources
        )
        listed = "; ".join(dict.fromkeys(stated))
        self.notes.append(
            f"rates differ ({listed}): steps are selected at {fps:g} Hz; an action that is a change per step then is "
            "another motion"
        )
        return fps


def _group_texts(counts: Mapping[str, int], notes: list[str]) -> dict[str, tuple[str, ...]]:
    """Texts that are wordings of one task, by the one that most episodes have; groups of several alone."""
    if len(counts) > _MOST_TEXTS:
        return {}
    groups = group_wordings(sorted(counts, key=lambda text: (-counts[text], text)))
    notes += [
        f"texts are one task, {texts[0]!r}: {shorten_names([repr(text) for text in texts[1:]])}"
        for texts, is_plain in groups
        if not is_plain
    ]
    if plain := sum(is_plain for _, is_plain in groups):
        notes.append(
            f"{count_are(plain, 'task')} written in several ways, that differ in case and marks alone"
        )
    return {texts[0]: texts for texts, _ in groups}


def _describe_samples(sources: Sequence[_SourceFacts]) -> Iterator[str]:
    """What of the sampled episodes is filled, or left out since other episodes have none of it."""
    for source in sources:
        for name, profile in source.features.items():
            yield from profile.describe_gaps(f"feature {name} of {source.label}", len(source.sample))
        if source.parts[_UNNAMED]:
            yield f"masks of {source.label} do not say of what: all cameras and features count as its own"
    for part in sorted(
        {name for source in sources for name in source.parts if name.startswith(("reward", "depth"))}
    ):
        counts = [source.parts[part] for source in sources]
        if 0 < sum(counts) < sum(len(source.sample) for source in sources):
            have = [f"{count} of {source.label}" for count, source in zip(counts, sources, strict=True)]
            yield f"{part} is left out, since not all sampled episodes have it: {', '.join(have)}"


class _SampledSignals:
    """The signals of some episodes of each source; read once, when they are compared.

    Args:
        stores: Stores of the workspace.
        sources: The sources, the one with most episodes first.
    """

    def __init__(self, stores: Stores, sources: Sequence[_SourceFacts]) -> None:
        self._stores, self._sources = stores, sources
        self._read: list[tuple[_SourceFacts, list[tuple[Episode, Trajectory]]]] = []

    def compare(self, change: Callable[[Episode, Trajectory], tuple[Episode, Trajectory]]) -> list[_Compared]:
        """What every source but the first agrees in with the first that has signals, once the episodes are changed."""
        parts = [(source, list(_finite_signals(pairs, change))) for source, pairs in self._pairs()]
        (first, first_signals), *others = [part for part in parts if part[1]] or [(self._sources[0], [])]
        return [
            _Compared(first, source, compare_sources(first_signals, signals, (first.label, source.label)))
            for source, signals in others
        ]

    def collect_features(self) -> None:
        """Note of each source what its episodes have besides state and action, but for what ARES writes."""
        for source, pairs in self._pairs():
            for episode, trajectory in pairs:
                depth = episode.metadata.get(DEPTH_CAMERAS)
                source.parts.update(["reward"] if trajectory.reward is not None else [])
                source.parts.update(
                    f"depth of camera {name}" for name in (depth if isinstance(depth, Mapping) else ())
                )
                for name, signal in trajectory.extra.items():
                    if name not in _NO_FEATURES:
                        source.features.setdefault(name, FeatureProfile()).add(signal)
                    elif name in MASK_SIGNALS:
                        has_names = not signal.names[0].startswith(name)
                        source.parts.update(
                            [name, *([] if has_names or name not in MASK_SIGNALS[2:] else [_UNNAMED])]
                        )

    def _pairs(self) -> list[tuple[_SourceFacts, list[tuple[Episode, Trajectory]]]]:
        if not self._read:
            tables = self._stores.tables
            for source in self._sources:
                trajectories = dict(tables.trajectories.read(source.sample))
                episodes = tables.episodes.get([id for id in source.sample if id in trajectories])
                pairs = [(episode, trajectories[episode.episode_id]) for episode in episodes]
                self._read.append((source, pairs))
        return self._read


class _Compared(NamedTuple):
    """The first source, another, and how they agree."""

    first: _SourceFacts
    source: _SourceFacts
    agreement: Agreement


def _finite_signals(
    pairs: Sequence[tuple[Episode, Trajectory]],
    change: Callable[[Episode, Trajectory], tuple[Episode, Trajectory]],
) -> Iterator[EpisodeSignals]:
    """Signals of changed episodes that can be compared; others are what the export will name."""
    import numpy as np

    for episode, trajectory in pairs:
        try:
            signals = episode_signals(*change(episode, trajectory))
        except AresError:
            continue
        if len(signals.seconds) and np.isfinite(signals.state).all() and np.isfinite(signals.action).all():
            yield signals


def _with_conversions(
    plan: MergePlan, contracts: Sequence[LayoutContract], samples: _SampledSignals
) -> MergePlan:
    """The plan with the conversions that make its signals mean the same, each to be confirmed; else with the clash.

    What then differs between the signals of two sources, or would not have shown, is to be confirmed as well.
    """
    unknown = [
        form for source in plan.sources for turn in source.rotations for form in (turn.form, turn.to_form)
    ]
    if ASK in unknown or any(ASK in part.values() for source in plan.sources for _, part in source.parts):
        question = (
            "what signals mean was not compared, since questions are open: `ares export --plan` compares it"
        )
        return plan.model_copy(update={"confirm": (*plan.confirm, Confirmation(text=question))})
    assert not list(plan_faults(plan)), "a proposal without questions is whole"
    before = plan
    for _ in range(3):
        try:
            compared = samples.compare(MergeConverter(plan, contracts).convert)
            doubts = (Confirmation(text=doubt) for part in compared for doubt in part.agreement.doubts)
            return plan.model_copy(update={"confirm": (*plan.confirm, *doubts)})
        except ClashError as error:
            before, plan = plan, _answer_clashes(plan, error, samples)
            if plan.convert == before.convert:
                return plan
        except RequestError as error:  # what a clash proposes cannot be made
            note = Confirmation(text=f"{error.reason}: {error.detail}")
            return before.model_copy(update={"confirm": (*plan.confirm, note)})
    return plan


def _answer_clashes(plan: MergePlan, error: ClashError, samples: _SampledSignals) -> MergePlan:
    """The plan with what converts each clash, as far as something does.

    A clash that was concluded from values alone is none where the sources are shown to agree: the plan states that.
    """
    applier = MergeApplier(plan)
    compared = samples.compare(lambda *pair: (applier.rename(pair[0]), applier.select(*pair)))
    agreeing = {f"{part.source.key.dataset}/{group}" for part in compared for group in part.agreement.groups}
    convert, notes = list(plan.convert), list(plan.confirm)
    for clash in error.clashes:
        is_none = clash.by_values and _signed_groups(clash) <= agreeing
        added = [text for text in (clash.sign if is_none else clash.convert) if _is_new(text, convert)]
        convert += added
        remedy = f"converted by {' and '.join(added)}" if added else clash.remedy
        if not (is_none and added):
            notes.append(Confirmation(text=f"{clash}: {remedy}"))
    return plan.model_copy(update={"convert": tuple(convert), "confirm": tuple(notes)})


def _signed_groups(clash: Clash) -> set[tuple[str, str]]:
    """Datasets and groups that would be signed to mean the same as those of others, with these."""
    pairs = [text.rpartition(": as in ")[::2] for text in clash.sign]
    signed = {(target.rpartition("/")[0], target.rpartition("/")[2]) for target, _ in pairs}
    return signed | {(other, target.rpartition("/")[2]) for target, other in pairs}


def _is_new(text: str, convert: Sequence[str]) -> bool:
    try:
        parse_conversions([*convert, text])
    except RequestError:
        return False
    return True
