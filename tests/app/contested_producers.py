"""Annotations by producers that disagree, contradict each other and describe segments; texts contain markup."""

from __future__ import annotations

from dataclasses import replace

from ares.annotation import Annotation, Column, Producer, SubjectKind, make_segment_id
from ares.episode import Episode, Json
from ares.workspace import Workspace

MARKUP = "<img src=x onerror=\"document.title='broken in'\"> ![p](http://example.invalid/p.png) **lift**"

CAPTIONER = Producer(
    annotator="caption",
    version="1",
    model="captioner",
    columns=(
        Column(name="caption", type="string", meaning="What a captioner saw."),
        Column(name="caption_success", type="bool", meaning="Outcome in the caption.", is_outcome=True),
    ),
    kind="model",
    fills_segments=True,
)
OTHER_CAPTIONER = replace(CAPTIONER, model=f"other {MARKUP}", settings={"layout": "collage"})
JUDGE = Producer(
    annotator="grade",
    version="1",
    model="judge",
    columns=(
        Column(name="grade", type="string", meaning="What the rubric makes of it."),
        Column(name="acceptable", type="bool", meaning="Is it true?", needs_current_maker=True),
    ),
    kind="model",
    subject_kind="annotation",
    after=("caption",),
)
NEWER_JUDGE = replace(JUDGE, version="2")
PERSON = Producer(
    annotator="review",
    version="1",
    settings={"name": f"Ada {MARKUP}"},
    columns=JUDGE.columns,
    kind="person",
    subject_kind="annotation",
    after=("caption",),
)
SKILLS = Producer(annotator="skills", version="1", fills_segments=True)
SKILL_SUCCESS = Producer(
    annotator="skill_success",
    version="1",
    columns=(
        Column(name="skill_done", type="bool", meaning="Was it done?", rollup="all"),
        Column(name="skill_note", type="string", meaning="Why.", rollup="list"),
    ),
    subject_kind="segment",
    after=("skills",),
)
PRODUCERS = (CAPTIONER, OTHER_CAPTIONER, JUDGE, NEWER_JUDGE, SKILLS, SKILL_SUCCESS)


def make_annotation(
    episode: Episode,
    producer: Producer,
    subject: str = "",
    kind: SubjectKind = "episode",
    span: tuple[float, float] | None = None,
    **value: Json,
) -> Annotation:
    """An annotation of an episode or of another subject, over the whole episode or a span."""
    start, stop = span or (0.0, episode.duration_seconds)
    return Annotation(
        episode_id=episode.episode_id,
        name=producer.annotator,
        value=value,
        maker_id=producer.maker_id,
        subject=subject or episode.episode_id,
        start_seconds=start,
        stop_seconds=stop,
        created="2026-11-01T00:00:00+00:00",
        subject_kind=kind,
    )


def make_caption(episode: Episode, producer: Producer, text: str, success: bool | None = None) -> Annotation:
    """A caption, with the outcome that it states."""
    return make_annotation(episode, producer, text=text, caption=text, caption_success=success)


def make_grade(episode: Episode, producer: Producer, caption: Annotation, verdict: str) -> Annotation:
    """A grade of a caption from one ruling, MET or UNMET."""
    ruling: Json = {
        "criterion": "VERB", "category": "essential", "verdict": verdict, "source": "claim", "observed": MARKUP,
        "reason": "seen", "evidence": [0.5],
    }  # fmt: skip
    grade, acceptable = {"MET": ("acceptable", True), "UNMET": ("not_acceptable", False)}[verdict]
    return make_annotation(
        episode, producer, caption.annotation_id, "annotation",
        grade=grade, acceptable=acceptable, score=float(acceptable), rulings=[ruling],
    )  # fmt: skip


def annotate_with_several_producers(opened: Workspace) -> None:
    """The first episode has a conflict and segments; of the second two captioners and judges differ."""
    log = opened.stores.annotations
    for producer in (*PRODUCERS, PERSON):
        log.add_producer(producer)
    first, second, *_ = sorted(opened.stores.tables.episodes.read(), key=lambda episode: episode.key)
    text = f"close it {MARKUP}"
    caption = make_caption(first, OTHER_CAPTIONER, text, success=not first.success)
    log.append([caption, make_grade(first, JUDGE, caption, "MET"), *_segments(first)])
    # Of the whole episode, where a judge describes captions: kept in the log alone.
    log.append([make_annotation(first, NEWER_JUDGE, grade="unsure")])
    older, newer = make_caption(second, CAPTIONER, "open it"), make_caption(second, OTHER_CAPTIONER, MARKUP)
    grades = [make_grade(second, JUDGE, newer, "UNMET"), make_grade(second, NEWER_JUDGE, newer, "MET")]
    log.append([older, newer, make_grade(second, JUDGE, older, "MET"), *grades])
    log.append([_ruling_of_a_person(second, newer)])
    opened.sync()


def _ruling_of_a_person(episode: Episode, caption: Annotation) -> Annotation:
    ruling: Json = {"criterion": "VERB", "category": "essential", "verdict": "UNMET", "source": "person"}
    annotation = make_annotation(episode, PERSON, caption.annotation_id, "annotation", rulings=[ruling])
    return replace(annotation, part="VERB")


def _segments(episode: Episode) -> list[Annotation]:
    spans = {(0.0, 1.0): "reach", (1.5, 2.5): MARKUP}
    segments = [make_annotation(episode, SKILLS, span=span, text=text) for span, text in spans.items()]
    outcomes = [
        make_annotation(
            episode, SKILL_SUCCESS, make_segment_id(episode.episode_id, *span), "segment", span,
            skill_done=span[0] == 0.0, skill_note=MARKUP,
        )
        for span in spans
    ]  # fmt: skip
    return [*segments, *outcomes]
