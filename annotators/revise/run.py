"""Runs a revision: who takes part, and whether its captions are adopted."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ares.annotation import Cost, short_hash
from ares.errors import RequestError
from ares.jobs import Progress
from ares.statistics import compare_paired
from ares.store import keep_newest_annotations
from ares_annotators.base import Budget
from ares_annotators.caption import CaptionAnnotator, CaptionOptions
from ares_annotators.grade import GradeAnnotator, load_rubric
from ares_annotators.revise.critique import choose_hidden_criteria, read_critique_form
from ares_annotators.revise.revision import GradedCaption, RevisedCaption, Revision, Spending, revise_captions

if TYPE_CHECKING:
    from ares.annotation import Producer
    from ares.episode import Json
    from ares.statistics import PairedDifference
    from ares.store import Stores
    from ares_annotators.base import Options


# Of what is asked and how; part of the producer of revised captions.
_VERSION = "3"
_LEVEL = 0.05
_ENDS = {
    "budget": "the budget is spent; with a larger one the same command goes on",
    "server": "the server has failed too often in a row; later the same command goes on",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRequest:
    """What a revision is to do.

    Attributes:
        rubric: Shipped name or YAML file of the rubric.
        captions: Id of the producer of the captions, or the start of it; "" where there is only one.
        where: SQL filter over the episode columns.
        budget_usd: Hard stop, or None.
    """

    rubric: str = "caption"
    captions: str = ""
    where: str = ""
    budget_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRun:
    """What a revision has done and shown.

    Attributes:
        first: Producer of the captions that were revised.
        second: Producer of the revised captions.
        judge: Producer of the grades.
        hidden: Criteria of which the captioner was not told.
        captions: Captions with a grade.
        refused: Those that were asked again.
        compared: Those of them that have a grade before and after.
        changed: Those of them whose words are others now.
        hidden_criteria: How much more often they meet all hidden criteria; None where nothing could be compared.
        is_adopted: Whether the revised captions are shown now.
        reason: Why they are, or are not.
        ended_by: "budget" or "server" where that ended it before all was done, else "".
        failures: Number of failures by reason.
        cost: What was paid.
        warnings: What a person should know.
    """

    first: str
    second: str
    judge: str
    hidden: Sequence[str]
    captions: int
    refused: int
    compared: int
    changed: int
    hidden_criteria: PairedDifference | None
    is_adopted: bool
    reason: str
    ended_by: str
    failures: Mapping[str, int]
    cost: Cost
    warnings: Sequence[str]


def run_revision(
    stores: Stores, options: Options, request: RevisionRequest, *, quiet: bool = False
) -> RevisionRun:
    """Ask for refused captions again with what failed; the new ones are shown if the hidden criteria improve.

    Replies are kept and money is booked as in every run: an interrupted revision goes on where it was.

    Args:
        stores: Stores of the workspace.
        options: The judge whose grades are told, and values of the options of `grade`.
        request: What to do.
        quiet: Show no progress.

    Raises:
        RequestError: No caption was graded by this judge and rubric, a producer is not known, or an option is wrong.
        ModelError: A model cannot be loaded or does not answer.
    """
    options = options.with_budget(request.budget_usd)
    with stores.write_lock("ares rubric revise"):
        stores.sync()
        revision, captioner = _load_revision(stores, options, request)
        captions = list(_scan_graded_captions(revision, request.where))
        if not captions:
            raise RequestError(
                "no caption was graded by this judge and rubric",
                "run `ares annotate grade` with it, or name it; `ares use` lists the producers",
            )
        warnings: list[str] = []
        for annotator in (captioner, revision.judge):
            learnt = annotator.preflight([])
            revision.spending.cost += learnt.cost
            warnings += [*annotator.warnings, *learnt.warnings]
        for producer in (revision.captioner.producer, *revision.judge.side_producers):
            stores.annotations.add_producer(producer)
        return _run_round(revision, captions, warnings, quiet)


def _load_revision(
    stores: Stores, options: Options, request: RevisionRequest
) -> tuple[Revision, CaptionAnnotator]:
    """Who takes part, and the captioner as an annotator, for its test call. Raises as `run_revision`."""
    options = replace(options, values={**options.values, "rubric": request.rubric})
    first = _find_captions(stores, request.captions)
    values = {name: first.settings[name] for name in CaptionOptions.model_fields if name in first.settings}
    values["verbs"] = options.values.get("verbs", "")
    annotator = CaptionAnnotator(replace(options, model="", values=values), stores)
    _check_captioner(annotator.producer, first)
    judge = GradeAnnotator(options, stores)
    rubric = load_rubric(request.rubric)
    hidden = choose_hidden_criteria(rubric)
    revision = Revision(
        stores=stores,
        first=first,
        captioner=replace(annotator.captioner, producer=_make_producer(first, judge.producer, hidden)),
        judge=judge,
        rubric=rubric,
        hidden=hidden,
        spending=Spending(options.budget or Budget(None)),
    )
    return revision, annotator


def _find_captions(stores: Stores, text: str) -> Producer:
    """The producer of the captions to revise. Raises RequestError where it is not given and not the only one."""
    producers = {
        key: producer
        for key, producer in stores.annotations.producers().items()
        if producer.annotator == "caption"
        and producer.kind == "model"
        # Captions that were revised, or, by earlier versions, asked for a second time.
        and not producer.settings.keys() & {"revises", "repeats"}
    }
    matches = [producer for key, producer in producers.items() if key.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    known = "; ".join(f"{key} ({producer.model})" for key, producer in producers.items()) or "none"
    raise RequestError(
        f"no single producer of captions {text!r}" if text else "captions of one producer are revised",
        f"there are: {known}; give --captions",
    )


def _check_captioner(captioner: Producer, first: Producer) -> None:
    """Raises RequestError where the captions were written by another model, or with another guide of verbs."""
    if captioner.model != first.model:
        raise RequestError(
            "captions are revised by the model that wrote them",
            f"they are by {first.model!r}, the captioner is {captioner.model!r}; set ARES_CAPTION_MODEL",
        )
    known = first.settings.get("verbs_hash")
    if known and known != captioner.settings["verbs_hash"]:
        raise RequestError(
            "captions are revised with the verbs that they were written with",
            "give their guide of verbs by --verbs FILE, or none where they have the shipped one",
        )


def _make_producer(first: Producer, judge: Producer, hidden: Sequence[str]) -> Producer:
    """The producer of revised captions: another prompt is another producer."""
    critique: dict[str, Json] = {"revises": first.maker_id, "judge": judge.maker_id, "hidden": list(hidden)}
    prompt_hash = short_hash([first.prompt_hash, read_critique_form()])
    return replace(first, version=_VERSION, prompt_hash=prompt_hash, settings={**first.settings, **critique})


def _scan_graded_captions(revision: Revision, where: str) -> Iterator[GradedCaption]:
    """Yield the captions that the judge has graded. Raises RequestError for a wrong filter."""
    log, first, judge = revision.stores.annotations, revision.first.maker_id, revision.judge.producer
    for ids in revision.stores.tables.episodes.id_batches(where):
        newest = keep_newest_annotations(log.find_annotations(ids, maker_ids=[first, judge.maker_id]))
        grades = {item.subject: item for item in newest if item.name == judge.annotator}
        for caption in newest:
            if caption.maker_id == first and caption.annotation_id in grades:
                yield GradedCaption(caption=caption, grade=grades[caption.annotation_id])


def _run_round(
    revision: Revision, captions: Sequence[GradedCaption], warnings: Sequence[str], quiet: bool
) -> RevisionRun:
    """Ask, compare, and store the new captions with their grades where they are better."""
    refused = [item for item in captions if revision.find_failures(item)]
    with closing(Progress("revise", len(refused), None if quiet else sys.stderr)) as progress:
        revised = revise_captions(revision, refused, progress.advance)
    hidden, spending = revision.hidden, revision.spending
    run = RevisionRun(
        first=revision.first.maker_id,
        second=revision.captioner.producer.maker_id,
        judge=revision.judge.producer.maker_id,
        hidden=hidden,
        captions=len(captions),
        refused=len(refused),
        compared=len(revised),
        changed=sum(bool(item.new) for item in revised),
        hidden_criteria=_compare_sides(revised, hidden),
        is_adopted=False,
        reason="the hidden criteria are met more often",
        ended_by=spending.ended_by,
        failures=spending.failures,
        cost=spending.cost,
        warnings=warnings,
    )
    if refusal := _find_refusal(run, revised):
        return replace(run, reason=refusal)
    revision.stores.annotations.append([annotation for item in revised for annotation in item.new])
    revision.stores.sync()
    return replace(run, is_adopted=True)


def _compare_sides(revised: Sequence[RevisedCaption], hidden: Sequence[str]) -> PairedDifference | None:
    """How much more often captions meet the hidden criteria after than before; None without a caption."""
    before = [item.before.meets(hidden) for item in revised]
    return compare_paired(before, [item.after.meets(hidden) for item in revised]) if revised else None


def _find_refusal(run: RevisionRun, revised: Sequence[RevisedCaption]) -> str:
    """Why revised captions are not shown; "" where the hidden criteria improve."""
    if run.ended_by:
        return _ENDS[run.ended_by]
    if not run.refused:
        return "no caption fails a criterion of which the captioner may be told"
    if run.hidden_criteria is None:
        return "no caption could be compared"
    if not run.changed:
        return "the captioner changed nothing"
    # McNemar's exact test.
    if run.hidden_criteria.difference > 0 and run.hidden_criteria.p_value < _LEVEL:
        return ""
    if all(item.before.meets(run.hidden) for item in revised):
        return "all captions met the hidden criteria before, so nothing can show an improvement"
    return "the hidden criteria are not met more often"
