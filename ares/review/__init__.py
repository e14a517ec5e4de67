"""What people say of annotations: rulings, corrections, and how many of the accepted captions are true."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.review.answers import (
        PERSON_ANNOTATORS as PERSON_ANNOTATORS,
        PERSON_COLUMNS as PERSON_COLUMNS,
        Answer as Answer,
        DescribedEpisodes as DescribedEpisodes,
        find_earlier_answer as find_earlier_answer,
        find_last_answer as find_last_answer,
        give_answer as give_answer,
        is_about_attribute as is_about_attribute,
        is_about_episode as is_about_episode,
        list_answers as list_answers,
        prepare_answer as prepare_answer,
        read_answer as read_answer,
        read_described as read_described,
        withdraw_answer as withdraw_answer,
    )
    from ares.review.comparison import compare_producers as compare_producers
    from ares.review.drawing import (
        Queue as Queue,
        QueueRequest as QueueRequest,
        create_queue as create_queue,
        list_criteria as list_criteria,
        list_queues as list_queues,
        shipped_guidelines as shipped_guidelines,
        usual_guideline as usual_guideline,
    )
    from ares.review.instruction_audit import (
        AuditedEpisode as AuditedEpisode,
        InstructionAudit as InstructionAudit,
        audit_instructions as audit_instructions,
        create_audit_queue as create_audit_queue,
        find_finding as find_finding,
        judge_instructions as judge_instructions,
        read_audited_episodes as read_audited_episodes,
        read_audits as read_audits,
    )
    from ares.review.instruction_features import read_features as read_features
    from ares.review.keys import (
        HELP_KEY as HELP_KEY,
        UNDO_KEY as UNDO_KEY,
        list_answer_keys as list_answer_keys,
    )
    from ares.review.labels import (
        PreparedAnswer as PreparedAnswer,
        SegmentChange as SegmentChange,
        correct_segments as correct_segments,
        person_settings as person_settings,
        store_prepared as store_prepared,
        withdraw_segments as withdraw_segments,
    )
    from ares.review.measurement import (
        NO_PERSON as NO_PERSON,
        USUAL_SHARE as USUAL_SHARE,
        MeasuredShare as MeasuredShare,
        Measurements as Measurements,
        check_share as check_share,
        count_answers as count_answers,
        find_answered as find_answered,
        format_share as format_share,
        read_measured_shares as read_measured_shares,
    )
    from ares.review.measurement_drawing import (
        Drawing as Drawing,
        draw_measurement as draw_measurement,
        find_drawing as find_drawing,
        find_measured_question as find_measured_question,
        list_drawings as list_drawings,
    )
    from ares.review.queue import (
        LEASE_SECONDS as LEASE_SECONDS,
        QueueItem as QueueItem,
        QueueProgress as QueueProgress,
        ReviewQueue as ReviewQueue,
    )

__getattr__ = lazy_exports(__name__)
