"""The annotator `grade`, its judges, the attack on them, and the rubrics that come with ARES."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_annotators.grade.annotator import GradeAnnotator as GradeAnnotator
    from ares_annotators.grade.attack import (
        AttackedDataset as AttackedDataset,
        AttackRun as AttackRun,
        run_attack as run_attack,
    )
    from ares_annotators.grade.clip_judge import ClipJudge as ClipJudge
    from ares_annotators.grade.rubric_files import load_rubric as load_rubric

__getattr__ = lazy_exports(__name__)
