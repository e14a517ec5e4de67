"""The plan of a merge: what the cameras, dimensions, rates, splits and tasks of each source become in one dataset.

A dimension is another one by its name, by its kind and order, or as part of a rotation that is converted.
A plan is a YAML file that `ares export --write-plan` writes, a person edits, and `ares export --plan` obeys.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ares.console import count_of
from ares.contract import (
    ROTATION_FORMS,
    FeatureProfile,
    SignalName,
    compare_features,
    replace_names,
    rotation_width,
)
from ares.episode import Role
from ares.errors import RequestError, SourceError, first_fault
from ares.input import read_yaml
from ares.signals import classify_by_name, name_tokens

# What a person writes for a camera or a dimension that the merged dataset does not have, what a plan has where nothing
# says which one it is, and for a dimension of a rotation that becomes others.
DROP, ASK, TURN = "drop", "ask", "turn"
# How the name begins of a signal of the merged dataset besides state, action and reward.
FEATURE_PREFIX = "feature."
# What may be padded: "camera wrist", "state gripper", "action gripper".
PaddedKind = Literal["camera", "state", "action", "feature"]
_LISTED = 6
# Kinds by name that say what a dimension is; others are asked for.
_VAGUE_KINDS = frozenset({"unknown", "other"})
_HEADER = """\
# What each source of a set becomes in one dataset. Edit it, then:
#   ares export {set} FOLDER --format lerobot --plan {file}
# - Each camera and dimension of a source is followed by what it is called in the merged dataset, or by "drop".
# - "ask" is a question that nothing in the data answers: write a name, or "drop".
# - "turn" is a dimension of a rotation that `rotations` converts: which dimensions, what they are, what they become.
# - `features` are signals besides state, action and reward; "drop" leaves one out.
# - `pad` lists what a source lacks ("camera NAME", "state NAME"; "state" is all that it lacks): black pictures or zeros
#   are written, and a mask says so.
# - `confirm` lists what was concluded and not seen: each needs `ok: true`.
# docs/merge.md explains it.
"""


class _PlanModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_Name = Annotated[str, Field(min_length=1, max_length=200)]


class PlannedCamera(_PlanModel):
    """A camera of the merged dataset.

    Attributes:
        width: Pixels; pictures of another size are made to fit, their sides kept, with black bars.
        height: Pixels.
        role: Its viewpoint.
    """

    width: int = Field(ge=2, le=8192)
    height: int = Field(ge=2, le=8192)
    role: Role = "other"


class PlannedRotation(_PlanModel):
    """A rotation of a source that has other numbers in the merged dataset.

    Attributes:
        signal: State or action.
        names: Its dimensions in the source, those of one arm after those of another.
        form: What they are, of `ares.contract.ROTATION_FORMS`, or ASK.
        to: The dimensions of the merged dataset that they become.
        to_form: What these are, likewise.
    """

    signal: SignalName
    names: tuple[_Name, ...] = Field(min_length=1)
    form: str
    to: tuple[_Name, ...] = Field(min_length=1)
    to_form: str


class PlannedSource(_PlanModel):
    """What becomes of the episodes of one dataset that have the same cameras and dimensions.

    Attributes:
        dataset: Name of the dataset.
        format: Its format.
        version: Its version.
        episodes: How many members of the set it has.
        rate_hz: Their rates, in steps per second.
        use: Whether they are written; false leaves them out, and the export says so.
        cameras: What each of its cameras is called in the merged dataset, DROP or ASK.
        state: The same for each dimension of its state.
        action: The same for each dimension of its action.
        rotations: What becomes of the dimensions whose goal is TURN.
        features: The same for its signals besides state, action and reward; one that is not named stays as it is.
        pad: What it lacks and gets: "camera NAME", "state NAME", "action NAME"; "state" alone is all that it lacks.
        splits: What each of its splits is called.
    """

    dataset: str
    format: str
    version: str = ""
    episodes: int = Field(default=0, ge=0)
    rate_hz: tuple[float, ...] = ()
    use: bool = True
    cameras: dict[str, _Name] = {}
    state: dict[str, _Name] = {}
    action: dict[str, _Name] = {}
    rotations: tuple[PlannedRotation, ...] = ()
    features: dict[str, _Name] = {}
    pad: tuple[str, ...] = ()
    splits: dict[str, str] = {}

    @property
    def label(self) -> str:
        """For example "bridge_dataset 1.0.0"."""
        return f"{self.dataset} {self.version}".strip()

    @property
    def parts(self) -> Iterator[tuple[PaddedKind, Mapping[str, str]]]:
        """Cameras, state, action and features, with what each name becomes; rotations have their new names already."""
        yield "camera", self.cameras
        yield "state", self.turned("state")
        yield "action", self.turned("action")
        yield "feature", self.features

    def turned(self, signal: SignalName) -> dict[str, str]:
        """What each dimension of a signal becomes, those of its rotations under the names that they become."""
        mapping = self.state if signal == "state" else self.action
        names = tuple(mapping)
        for rotation in self.rotations:
            if rotation.signal == signal:
                names = replace_names(names, rotation.names, rotation.to)
        return {name: mapping.get(name, name) if mapping.get(name) != TURN else name for name in names}

    def padded(self, kind: PaddedKind, names: Sequence[str]) -> frozenset[str]:
        """Names of the cameras or dimensions of one kind that it gets, of those of the merged dataset."""
        mapping = dict(self.parts)[kind]
        if kind in self.pad:
            return frozenset(names).difference(mapping.values())
        return frozenset(entry.removeprefix(f"{kind} ") for entry in self.pad if entry.startswith(f"{kind} "))


class Confirmation(_PlanModel):
    """Something that was concluded and not seen, which a person confirms.

    Attributes:
        text: What was concluded, and by what.
        ok: Whether a person says that it is so.
    """

    text: str
    ok: bool = False


class SourceKey(NamedTuple):
    """What distinguishes the sources of a plan: dataset, and the names of cameras and dimensions.

    Attributes:
        cameras: Sorted.
        state: In their order.
        action: In their order.
    """

    format: str
    dataset: str
    version: str
    cameras: tuple[str, ...]
    state: tuple[str, ...]
    action: tuple[str, ...]


class MergePlan(_PlanModel):
    """How the sources of a set become one dataset.

    Attributes:
        plan: Version of this form.
        set: The set that it was written for, such as "mixed@1".
        fps: Steps per second of the merged dataset; None where all sources have one rate.
        retime: Which step is written for a second.
        cameras: Its cameras by name.
        state: Names of the dimensions of its state, in order.
        action: Names of the dimensions of its action, in order.
        features: Names of the dimensions of its other signals; these have names that begin with FEATURE_PREFIX.
        masks: What a source has a mask of already, since it is itself a merged dataset.
        convert: Conversions of signals, as `ares export --convert` takes them, in the names of the merged dataset.
        tasks: For each task as it is written, the texts of sources that it stands for.
        sources: What becomes of each source.
        confirm: What a person has to confirm.
    """

    plan: Literal[1] = 1
    set: str
    fps: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    retime: Literal["nearest", "hold"] = "nearest"
    cameras: dict[_Name, PlannedCamera] = {}
    state: tuple[_Name, ...] = ()
    action: tuple[_Name, ...] = ()
    features: dict[_Name, tuple[str, ...]] = {}
    masks: tuple[PaddedKind, ...] = ()
    convert: tuple[str, ...] = ()
    tasks: dict[str, tuple[str, ...]] = {}
    sources: tuple[PlannedSource, ...]
    confirm: tuple[Confirmation, ...] = ()

    @property
    def task_by_text(self) -> dict[str, str]:
        """The task that is written for each text of a source."""
        return {text: task for task, texts in self.tasks.items() for text in texts}

    @property
    def camera_names(self) -> dict[tuple[str, str, str], dict[str, str]]:
        """For each dataset, the names that the merged dataset has for its cameras; another for one without any."""
        names: dict[tuple[str, str, str], dict[str, str]] = {}
        for source in self.sources:
            known = names.setdefault((source.format, source.dataset, source.version), {})
            for name, goal in source.cameras.items():
                is_clear = goal != DROP and known.get(name, goal) == goal
                known[name] = goal if is_clear else f"{name} of {source.label}"
        return names

    @property
    def targets(self) -> dict[PaddedKind, tuple[str, ...]]:
        """Names of the merged dataset, by kind."""
        features = tuple(self.features)
        return {
            "camera": tuple(self.cameras),
            "state": self.state,
            "action": self.action,
            "feature": features,
        }

    def write(self, path: Path) -> None:
        """Write the plan as YAML, for a person to edit.

        Raises:
            RequestError: The file exists already, or cannot be written.
        """
        import yaml

        document = {"plan": self.plan, **self.model_dump(mode="json", exclude_defaults=True)}
        text = yaml.safe_dump(
            document, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110
        )
        header = _HEADER.format(set=shlex.quote(self.set.partition("@")[0]), file=shlex.quote(path.name))
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(header + text)
        except FileExistsError:
            raise RequestError("the plan exists already", f"{path}; name a new file, or use --plan") from None
        except OSError as error:
            raise RequestError("the plan cannot be written", f"{path}: {error}") from None


class OpenQuestionsError(RequestError):
    """A plan has questions that a person has not answered.

    Args:
        path: Its file.
        questions: A line for each.
    """

    def __init__(self, path: Path, questions: tuple[str, ...]) -> None:
        super().__init__("the plan has open questions", f"{path}: {' | '.join(questions)}")
        self.lines = questions


def source_key(source: PlannedSource) -> SourceKey:
    """The key of a source; mappings of YAML keep their order."""
    return SourceKey(
        source.format,
        source.dataset,
        source.version,
        tuple(sorted(source.cameras)),
        tuple(source.state),
        tuple(source.action),
    )


class NameMatch(NamedTuple):
    """What the names of a source become, which it lacks, what of that was concluded, and the rotations to convert."""

    mapping: dict[str, str]
    padded: tuple[str, ...]
    notes: tuple[str, ...]
    rotations: tuple[PlannedRotation, ...] = ()


def match_dimensions(
    signal: SignalName,
    goals: tuple[str, ...],
    source_names: tuple[str, ...],
    labels: tuple[str, str],
    forms: tuple[str, str] = (ASK, ASK),
) -> NameMatch:
    """Which dimension of the merged dataset each of a source is: by name, else by kind and order.

    Args:
        signal: "state" or "action".
        goals: Names of the merged dataset.
        source_names: Names of the source.
        labels: The sources that have them.
        forms: What the rotations of both are, of `ROTATION_FORMS`; ASK where nothing tells, "" where there is none.
    """
    by_tokens = {name_tokens(name): name for name in goals}
    mapping = {name: name if name in goals else by_tokens.get(name_tokens(name), "") for name in source_names}
    counts = Counter(mapping.values())
    mapping = {
        name: choice if counts[choice] == 1 or choice == name else "" for name, choice in mapping.items()
    }
    rest = [name for name, choice in mapping.items() if not choice]
    free = [name for name in goals if name not in mapping.values()]
    notes = []
    for kind, names in _by_kind(source_names, rest).items():
        others = _by_kind(goals, free).get(kind, [])
        if kind not in _VAGUE_KINDS and len(names) == len(others):
            mapping |= dict(zip(names, others, strict=True))
            notes.append(
                f"{signal} of {labels[1]}: {shorten_names(names)} are {shorten_names(others)} of {labels[0]}, "
                f"by their kind, {kind}, and their order"
            )
    free = [name for name in goals if name not in mapping.values()]
    rotations = tuple(_match_rotation(signal, (goals, source_names), (free, mapping), forms))
    for turn in rotations:
        free = [name for name in free if name not in turn.to]
        notes.append(
            f"{signal} of {labels[1]}: the rotation {shorten_names(turn.names)} ({turn.form}) is converted to "
            f"{shorten_names(turn.to)} ({turn.to_form}) of {labels[0]}"
        )
    mapping = {name: choice or (ASK if free else DROP) for name, choice in mapping.items()}
    mapping |= {name: TURN for turn in rotations for name in turn.names}
    if dropped := [name for name, choice in mapping.items() if choice == DROP]:
        notes.append(f"{signal} of {labels[1]} is wider: {shorten_names(dropped)} are dropped")
    converted = [name for turn in rotations for name in turn.to]
    missing = [name for name in goals if name not in converted]
    return NameMatch(mapping, *pad_missing(signal, labels[1], mapping, missing, notes), rotations)


def _match_rotation(
    signal: SignalName,
    names: tuple[tuple[str, ...], tuple[str, ...]],
    unmatched: tuple[Sequence[str], Mapping[str, str]],
    forms: tuple[str, str],
) -> Iterator[PlannedRotation]:
    """The conversion of the rotation of a source, where none of its dimensions is one of the merged dataset by name.

    Args:
        signal: State or action.
        names: Dimensions of the merged dataset, and of the source.
        unmatched: Those of the first that nothing becomes, and what those of the second become.
        forms: What the rotations are.
    """
    (goals, source_names), (free, mapping) = names, unmatched
    to, turned = (_by_kind(part, part).get("rotation", []) for part in (goals, source_names))
    is_whole = to and turned and set(to) <= {*free} and not any(mapping[name] for name in turned)
    if is_whole and all(forms):
        counts = [
            {len(part) / rotation_width(name) for name in (ROTATION_FORMS if form == ASK else [form])}
            for part, form in zip((to, turned), forms, strict=True)
        ]
        if any(count >= 1 and count % 1 == 0 for count in counts[0] & counts[1]):
            yield PlannedRotation(
                signal=signal, names=tuple(turned), form=forms[1], to=tuple(to), to_form=forms[0]
            )


def _by_kind(names: tuple[str, ...], listed_names: Sequence[str]) -> dict[str, list[str]]:
    """Some of the names by their kinds, which all names together tell."""
    groups: dict[str, list[str]] = {}
    for name, kind in zip(names, classify_by_name(names), strict=True):
        if name in listed_names:
            groups.setdefault(kind, []).append(name)
    return groups


class FeatureGiver(NamedTuple):
    """Who gives a feature of the merged dataset: the source, its name there, and what is known of it."""

    label: str
    name: str
    profile: FeatureProfile


def name_features(names: Iterable[str], known: dict[str, str]) -> dict[str, str]:
    """What signals of a source are called in the merged dataset: no two the same, as in others where it can be."""
    goals: dict[str, str] = {}
    for name in sorted(names, key=lambda name: name not in known):
        base = FEATURE_PREFIX + name.removeprefix(FEATURE_PREFIX).replace("/", ".")
        goal = known.get(name, base)
        while goal in goals.values():
            goal = f"{base}_{len(goals) + 1}"
        goals[name] = goal
        known.setdefault(name, goal)
    return goals


def match_features(
    givers: Mapping[str, FeatureGiver], features: Mapping[str, tuple[str, FeatureProfile]], label: str
) -> NameMatch:
    """Which signal of the merged dataset each further signal of a source is: one of its name and as many dimensions.

    Args:
        givers: Who gives each signal of the merged dataset.
        features: By name, what those of the source are called in the merged dataset, and what is known of them.
        label: The source.
    """
    mapping, notes = {name: goal for name, (goal, _) in features.items()}, list[str]()
    for name, (goal, profile) in features.items():
        giver = givers[goal]
        count, other = len(profile.names), len(giver.profile.names)
        if count != other:
            mapping[name] = DROP
            numbers = count_of(count, "number")
            notes.append(f"feature {name} of {label} has {numbers}, not {other}: it is dropped")
        elif giver.profile is not profile:
            notes += _feature_doubts(giver, profile, name, label)
    return NameMatch(mapping, *pad_missing("feature", label, mapping, list(givers), notes))


def _feature_doubts(giver: FeatureGiver, profile: FeatureProfile, name: str, label: str) -> Iterator[str]:
    """What speaks against one meaning of a signal of two sources: its name, its dimensions and its values."""
    what, names, others = f"feature {name} of {label}", profile.names, giver.profile.names
    if name != giver.name:
        yield f"{what} is {giver.name} of {giver.label}, by its name"
    if {*names} != {*others}:
        pairs = [pair for pair in zip(names, others, strict=True) if pair[0] != pair[1]]
        source_text, goals = (shorten_names(part) for part in zip(*pairs, strict=True))
        yield f"{what}: {source_text} are {goals} of {giver.label}, by their order"
    # Layouts of one dataset have one recorder, and one unit.
    if label != giver.label and (doubts := list(compare_features(giver.profile, profile))):
        dimension, ends, source_ends = doubts[0]
        more = f" ({count_of(len(doubts), 'dimension')} in all)" if len(doubts) > 1 else ""
        yield (
            f"{what}: {dimension} has values from {source_ends[0]:.4g} to {source_ends[1]:.4g}, in {giver.label} from "
            f"{ends[0]:.4g} to {ends[1]:.4g}{more}: unit and sign are taken as the same; else write {DROP!r} for it"
        )
    if profile.is_whole != giver.profile.is_whole:
        whole, other = (label, giver.label) if profile.is_whole else (giver.label, label)
        yield f"feature {name}: whole numbers in {whole}, others in {other}, are taken as the same"


def pad_missing(
    kind: str, label: str, mapping: Mapping[str, str], goals: Sequence[str], notes: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What of the merged dataset a source lacks, and the notes with that; nothing while a question is open."""
    missing = () if ASK in mapping.values() else tuple(name for name in goals if name not in mapping.values())
    if missing:
        what = "black pictures" if kind == "camera" else "zeros"
        notes.append(
            f"{label} lacks {kind} {shorten_names(missing)}: {what} are written, and mask.{kind} says so"
        )
    return missing, tuple(notes)


def pad_entries(matches: Mapping[str, NameMatch]) -> Iterator[str]:
    """What a plan lists under `pad`: the kind alone where the source has nothing of it."""
    for kind, match in matches.items():
        if match.padded and not any(goal != DROP for goal in match.mapping.values()):
            yield kind
        else:
            yield from (f"{kind} {name}" for name in match.padded)


def shorten_names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def read_merge_plan(path: Path) -> MergePlan:
    """Read and check a plan.

    Raises:
        RequestError: It cannot be read, or names what is not there.
        OpenQuestionsError: A question is not answered.
    """
    try:
        plan = MergePlan.model_validate(read_yaml(str(path)))
    except (OSError, SourceError) as error:
        raise RequestError("the plan cannot be read", f"{path}: {error}") from None
    except ValidationError as error:
        raise RequestError("the plan is not valid", f"{path}: {first_fault(error, 'plan')}") from None
    faults = list(plan_faults(plan))
    if faults:
        raise RequestError("the plan is not valid", f"{path}: {_first_few(faults)}")
    questions = tuple(open_questions(plan))
    if questions:
        raise OpenQuestionsError(path, questions)
    return plan


def _first_few(lines: Sequence[str]) -> str:
    more = f" | and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
    return " | ".join(lines[:_LISTED]) + more


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(map(repr, names[:_LISTED])) + more


def plan_faults(plan: MergePlan) -> Iterator[str]:
    """What contradicts itself in a plan: a name that is not there, is there twice, or is neither given nor padded."""
    for kind, names in plan.targets.items():
        yield from (f"{kind} {name!r} is listed twice" for name in _repeated_names(names))
        yield from (f"{kind} {name!r} is a word of the plan" for name in names if name in (DROP, ASK, TURN))
    for name, dimensions in plan.features.items():
        if not (name.startswith(FEATURE_PREFIX) and dimensions):
            yield f"feature {name!r} begins with {FEATURE_PREFIX!r} and has dimensions"
    keys = Counter(source_key(source) for source in plan.sources)
    yield from (f"{key.dataset}: the same source is listed twice" for key, count in keys.items() if count > 1)
    texts = [text for texts in plan.tasks.values() for text in texts]
    yield from (f"the text {text!r} stands for two tasks" for text in _repeated_names(texts))
    if not any(source.use for source in plan.sources):
        yield "no source is used"
    for source in plan.sources:
        faults = _source_faults(source, plan) if source.use else _rotation_faults(source)
        yield from (f"{source.label}: {fault}" for fault in faults)


def _repeated_names(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _source_faults(source: PlannedSource, plan: MergePlan) -> Iterator[str]:
    if faults := list(_rotation_faults(source)):
        yield from faults
        return
    kinds = plan.targets
    for entry in source.pad:
        if entry not in kinds and entry not in {f"{kind} {name}" for kind in kinds for name in kinds[kind]}:
            yield f"pad: {entry!r} is no camera or dimension of the merged dataset"
    for kind, mapping in source.parts:
        goals = [goal for goal in mapping.values() if goal not in (DROP, ASK)]
        yield from (f"two {kind} names become {goal!r}" for goal in _repeated_names(goals))
        padded = source.padded(kind, kinds[kind])
        for goal in goals:
            if goal not in kinds[kind]:
                yield f"{kind} {goal!r} is not in the merged dataset"
            elif goal in padded:
                yield f"{kind} {goal!r} is both mapped and padded"
        if ASK not in mapping.values():
            missing = [name for name in kinds[kind] if name not in goals and name not in padded]
            if missing:
                names = _list_names(missing)
                yield f"nothing becomes {kind} {names}: map one, or list it under `pad` (`{kind}` is all)"


def _rotation_faults(source: PlannedSource) -> Iterator[str]:
    """What contradicts itself in the rotations of a source."""
    for signal, mapping in (("state", source.state), ("action", source.action)):
        rotations = [rotation for rotation in source.rotations if rotation.signal == signal]
        turned = [name for rotation in rotations for name in rotation.names]
        goals = [name for rotation in rotations for name in rotation.to]
        if sorted(turned) != sorted(name for name, goal in mapping.items() if goal == TURN):
            yield f"the {signal} names of `rotations` are not those that become {TURN!r}"
        elif clashing := sorted({*goals} & {name for name, goal in mapping.items() if goal != TURN}):
            yield f"a rotation becomes {_list_names(clashing)}, which the {signal} has besides"
        for rotation in rotations:
            forms, widths = (rotation.form, rotation.to_form), (len(rotation.names), len(rotation.to))
            unknown = [form for form in forms if form not in ROTATION_FORMS and form != ASK]
            yield from (f"no rotation {form!r}: {', '.join(ROTATION_FORMS)}" for form in unknown)
            if not unknown and ASK not in forms:
                arms = [count / rotation_width(form) for count, form in zip(widths, forms, strict=True)]
                if arms[0] != arms[1] or arms[0] < 1 or arms[0] % 1:
                    numbers = count_of(widths[0], "number")
                    yield f"rotations of {numbers} as {forms[0]} are none of {widths[1]} as {forms[1]}"


def open_questions(plan: MergePlan) -> Iterator[str]:
    """What a person has not answered, a line each."""
    for source in plan.sources:
        for kind, mapping in source.parts if source.use else ():
            if unanswered := [name for name, goal in mapping.items() if goal == ASK]:
                names = _list_names(plan.targets[kind]) or "none"
                yield f"{source.label}: which {kind} is {_list_names(unanswered)}? one of: {names}; or {DROP}"
        for turn in source.rotations if source.use else ():
            forms = (("", turn.form, turn.names), (" of the merged dataset", turn.to_form, turn.to))
            for where, form, turned in forms:
                if form == ASK:
                    fitting = (name for name in ROTATION_FORMS if len(turned) % rotation_width(name) == 0)
                    what = f"{turn.signal} {_list_names(turned)}{where}"
                    yield f"{source.label}: which rotation is {what}? one of: {', '.join(fitting)}"
    yield from (f"confirm (ok: true): {entry.text}" for entry in plan.confirm if not entry.ok)
