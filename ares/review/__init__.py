"""What people say of annotations: rulings, corrections; and producers compared on the same segments."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.review.allocation import (
        StratumCounts as StratumCounts,
        allocate_answers as allocate_answers,
        estimate_stratified_share as estimate_stratified_share,
    )
    from ares.review.answers import (
        PERSON_COLUMNS as PERSON_COLUMNS,
        Answer as Answer,
        answer_from_row as answer_from_row,
        answers_of_episodes as answers_of_episodes,
        find_earlier_answer as find_earlier_answer,
        find_last_answer as find_last_answer,
        give_answer as give_answer,
        list_answers as list_answers,
        prepare_answer as prepare_answer,
        read_answer as read_answer,
        store_answer as store_answer,
        withdraw_answer as withdraw_answer,
    )
    from ares.review.calibration import Calibration as Calibration, report_calibration as report_calibration
    from ares.review.certificate import (
        Certificate as Certificate,
        certificate_from_json as certificate_from_json,
        certified_members as certified_members,
        certify as certify,
        certify_items as certify_items,
        check_certificate as check_certificate,
        describe_certificate as describe_certificate,
        find_reasons_void as find_reasons_void,
        keep_certificate as keep_certificate,
    )
    from ares.review.drawing import (
        GUIDELINES as GUIDELINES,
        QUESTIONS_OF_EPISODES as QUESTIONS_OF_EPISODES,
        Queue as Queue,
        QueueRequest as QueueRequest,
        create_queue as create_queue,
        list_queues as list_queues,
        read_guideline as read_guideline,
        usual_guideline as usual_guideline,
    )
    from ares.review.estimates import (
        ShareEstimate as ShareEstimate,
        brier_score as brier_score,
        estimate_shifted_share as estimate_shifted_share,
        estimate_true_share as estimate_true_share,
        reliability_curve as reliability_curve,
    )
    from ares.review.instruction_audit import (
        AuditedEpisode as AuditedEpisode,
        InstructionAudit as InstructionAudit,
        InstructionFinding as InstructionFinding,
        audit_instructions as audit_instructions,
        create_audit_queue as create_audit_queue,
        judge_instructions as judge_instructions,
        normalize_instruction as normalize_instruction,
        read_audit_stamp as read_audit_stamp,
        read_audited_episodes as read_audited_episodes,
        read_audits as read_audits,
    )
    from ares.review.instruction_features import read_features as read_features
    from ares.review.judge_counts import (
        JudgedQuestion as JudgedQuestion,
        JudgementCount as JudgementCount,
        count_judgements as count_judgements,
        list_judged_questions as list_judged_questions,
    )
    from ares.review.labels import (
        SegmentChange as SegmentChange,
        add_correction as add_correction,
        add_ruling as add_ruling,
        correct_segments as correct_segments,
        person_settings as person_settings,
        withdraw_segments as withdraw_segments,
    )
    from ares.review.person_labels import (
        PERSON_ANNOTATORS as PERSON_ANNOTATORS,
        AuditVerdict as AuditVerdict,
        LabelledItem as LabelledItem,
        PersonAnswer as PersonAnswer,
        compare_people as compare_people,
        find_audit_verdicts as find_audit_verdicts,
        read_labelled_items as read_labelled_items,
    )
    from ares.review.producer_comparison import (
        ProducerComparison as ProducerComparison,
        compare_producers as compare_producers,
    )
    from ares.review.queue import (
        LEASE_SECONDS as LEASE_SECONDS,
        QueueItem as QueueItem,
        QueueProgress as QueueProgress,
        ReviewQueue as ReviewQueue,
    )

__getattr__ = lazy_exports(__name__)
