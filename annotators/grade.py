"""Grade: captions ruled on criterion by criterion, first by code and then by a judge that is not the captioner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.base import Annotator, Options, Result, Work
from annotators.facts import fact
from annotators.judge import Case, Judge, Judged
from annotators.layout import parse_layout
from annotators.rubrics import load_rubric
from annotators.vlm import family
from ares.annotation import Annotation, Column, Cost, Maker, short_hash
from ares.episode import Json
from ares.errors import AresError, RequestError
from ares.rubric.compare import stated
from ares.rubric.hard import CHECKS, Subject
from ares.rubric.rubric import Criterion, Rubric
from ares.rubric.slots import Slots, parse, parser_hash
from ares.rubric.verdict import Ruling, Verdict, aggregate

if TYPE_CHECKING:
    from ares.workspace import Workspace

_VERSION = "1"
_CLIP = "clip:"
COLUMNS = (
    Column(
        name="acceptable",
        type="bool",
        meaning="Whether the latest caption is acceptable; empty if undecided.",
    ),
    Column(name="grade", type="string", meaning="acceptable, not_acceptable, unsure or error."),
    Column(
        name="grade_score",
        type="float64",
        meaning="Weighted share of criteria met, 0 to 1; for ranking only.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """What grading needs."""

    rubric: Rubric
    judge: Judge
    maker: Maker


def grade(options: Options, ws: Workspace) -> Annotator:
    """An annotator that grades captions by a rubric.

    Raises:
        RequestError: The rubric or the judge's spec cannot be read, or every captioner is of the judge's kin.
        ModelError: The judge cannot be loaded.
    """
    rubric = load_rubric(options.rubric)
    judge = _load_judge(options, ws, rubric)
    captioners = _captioners(ws)
    if captioners and all(_is_kin(judge, maker) for maker in captioners.values()):
        raise _kin_error(judge, next(iter(captioners.values())))
    maker = Maker(
        annotator="grade",
        version=_VERSION,
        model=judge.name,
        prompt_hash=short_hash([rubric.hash, judge.prompt_hash, parser_hash()]),
        # The vocabulary of probes is no part of this: a new instruction among a million would make every grade
        # stale. Each grade keeps what was seen and how sure that was, so the doubtful ones can be found.
        settings={
            "rubric": rubric.id,
            "camera": options.camera,
            "layout": options.layout,
            "family": judge.family,
        },
        columns=COLUMNS,
    )
    grader = Grader(rubric=rubric, judge=judge, maker=maker)
    return Annotator(
        maker=maker,
        process=lambda works: _process(works, grader, ws),
        wants=judge.wants,
        about="caption",
        signals=True,
        batch=judge.batch,
        workers=judge.workers,
        estimate=lambda episode: judge.estimate(rubric.criteria),
    )


def _load_judge(options: Options, ws: Workspace, rubric: Rubric) -> Judge:
    spec = options.model or options.settings.judge_model
    if spec.startswith(_CLIP):
        from annotators.backends.clip import load_clip
        from annotators.probes import ProbeJudge
        from annotators.vocabulary import gather

        encoder = load_clip(spec.removeprefix(_CLIP), options.device)
        return ProbeJudge(encoder, rubric.probe, lambda: gather(ws), options.camera)
    from annotators.claims import MAX_NEW_TOKENS, ClaimJudge
    from annotators.vlm import load_vlm

    layout = parse_layout(options.layout)
    vlm = load_vlm(spec, options, MAX_NEW_TOKENS)
    return ClaimJudge(vlm, layout, options.camera, options.settings, spec.startswith("openai:"))


def _process(works: Sequence[Work], grader: Grader, ws: Workspace) -> list[Result | AresError]:
    captioners = _captioners(ws)
    prepared = [_prepare(work, grader, captioners) for work in works]
    open_cases = [case for case in prepared if isinstance(case, _Prepared) and case.open]
    judged = iter(grader.judge.judge([case.case for case in open_cases]))
    results: list[Result | AresError] = []
    for case in prepared:
        if isinstance(case, AresError):
            results.append(case)
            continue
        ruled = next(judged) if case.open else Judged(rulings=(), cost=Cost())
        results.append(ruled if isinstance(ruled, AresError) else _result(case, ruled, grader))
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A caption with what code has ruled on it, and the case that is left for the judge."""

    caption: Annotation
    case: Case
    ruled: Sequence[Ruling]

    @property
    def open(self) -> bool:
        return bool(self.case.criteria)


def _prepare(work: Work, grader: Grader, captioners: dict[str, Maker]) -> _Prepared | AresError:
    caption = work.about
    if caption is None:
        raise ValueError(f"a grade needs a caption, but work {work.subject} has none")
    maker = captioners.get(caption.maker_id)
    if maker is not None and _is_kin(grader.judge, maker):
        return _kin_error(grader.judge, maker)
    text = str(caption.value["text"])
    slots = parse(text)
    subject = Subject(text=text, slots=slots, trajectory=work.trajectory)
    ruled = {one.id: _by_code(one, subject) for one in grader.rubric.criteria}
    trapped = _trapped(grader.rubric, ruled)
    if trapped:
        # A caption that speaks to the judge is not shown to it.
        ruled = {name: ruling or _not_asked(name, trapped) for name, ruling in ruled.items()}
    left = [one for one in grader.rubric.criteria if ruled[one.id] is None]
    case = Case(work=work, text=text, slots=slots, criteria=left)
    return _Prepared(caption=caption, case=case, ruled=[ruling for ruling in ruled.values() if ruling])


def _by_code(criterion: Criterion, subject: Subject) -> Ruling | None:
    """What code rules on a criterion, or None where the judge has to."""
    if criterion.applies_when == "stated" and not _stated(criterion, subject.slots):
        return Ruling(
            criterion=criterion.id, verdict=Verdict.NA, source="hard", reason="caption does not say"
        )
    found = [CHECKS[name](subject) for name in criterion.hard]
    failed = next((one for one in found if one.verdict is Verdict.UNMET), None)
    if failed:
        return Ruling(
            criterion=criterion.id,
            verdict=Verdict.UNMET,
            source="hard",
            reason=failed.reason,
            observed=failed.observed,
        )
    if criterion.slot or criterion.claim:
        return None
    met = any(one.verdict is Verdict.MET for one in found)
    verdict, reason = (Verdict.MET, "checked by code") if met else (Verdict.NA, "no check applies")
    return Ruling(criterion=criterion.id, verdict=verdict, source="hard", reason=reason)


def _stated(criterion: Criterion, slots: Slots) -> bool:
    return criterion.slot is not None and stated(criterion.slot, slots)


def _trapped(rubric: Rubric, ruled: dict[str, Ruling | None]) -> str:
    """Id of a pitfall that the caption fell into, or ""."""
    for name, category in rubric.categories:
        ruling = ruled[name]
        if category == "pitfall" and ruling and ruling.verdict is Verdict.UNMET:
            return name
    return ""


def _not_asked(name: str, trapped: str) -> Ruling:
    return Ruling(
        criterion=name, verdict=Verdict.UNSURE, source="hard", reason=f"not asked, {trapped} is not met"
    )


def _result(prepared: _Prepared, judged: Judged, grader: Grader) -> Result:
    rubric = grader.rubric
    by_id = {ruling.criterion: ruling for ruling in (*prepared.ruled, *judged.rulings)}
    rulings = [by_id[name] for name, _ in rubric.categories]
    outcome = aggregate(rubric.categories, rulings)
    value: dict[str, Json] = {
        "grade": outcome.grade,
        "acceptable": outcome.acceptable,
        "score": outcome.score,
        "grade_score": outcome.score,
        "counts": dict(outcome.counts),
        "rubric": rubric.id,
        "rubric_version": rubric.version,
        "rubric_hash": rubric.hash,
        "caption_id": prepared.caption.annotation_id,
        "rulings": [{**by_id[name].to_json(), "category": category} for name, category in rubric.categories],
    }
    work = prepared.case.work
    seconds = sorted({second for ruling in rulings for second in ruling.evidence})
    cameras = list(grader.judge.wants(work.episode))
    camera = cameras[0] if len(cameras) == 1 else ""
    made = fact(work, grader.maker, value, camera=camera, frames=seconds, cost=judged.cost)
    return Result(annotations=[made])


def _captioners(ws: Workspace) -> dict[str, Maker]:
    return {key: maker for key, maker in ws.annotations.makers().items() if maker.annotator == "caption"}


def _is_kin(judge: Judge, captioner: Maker) -> bool:
    kin = str(captioner.settings.get("family") or family(captioner.model))
    return judge.name == captioner.model or judge.family == kin


def _kin_error(judge: Judge, captioner: Maker) -> RequestError:
    return RequestError(
        "the judge must not be of the captioner's kin",
        f"captions by {captioner.model!r}, judge {judge.name!r}; give a judge of another family (ARES_JUDGE_MODEL)",
    )
