"""Stores: LanceDB tables as the index, an append-only annotation log as the truth."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.store.actions import (
        ACTION_MEMBERS as ACTION_MEMBERS,
        NOTE_KINDS as NOTE_KINDS,
        NOTES as NOTES,
        PURGED_REASON as PURGED_REASON,
        SET_HEADERS as SET_HEADERS,
        SET_MEMBERS as SET_MEMBERS,
        TAG_KINDS as TAG_KINDS,
        TAGS as TAGS,
        TOMBSTONES as TOMBSTONES,
        VALUE_KINDS as VALUE_KINDS,
        Action as Action,
        ActionHistory as ActionHistory,
        ActionKind as ActionKind,
        RemovedIds as RemovedIds,
        SetEdits as SetEdits,
        action_key as action_key,
        add_tombstones as add_tombstones,
        find_set as find_set,
        hash_episode_identity as hash_episode_identity,
        new_members_key as new_members_key,
        read_action_members as read_action_members,
        read_history as read_history,
        read_set_edits as read_set_edits,
        record_action as record_action,
        removed_id_array as removed_id_array,
        write_action_members as write_action_members,
    )
    from ares.store.filters import parse_polygon as parse_polygon, polygon_fault as polygon_fault
    from ares.store.folder_lock import WorkspaceBusy as WorkspaceBusy
    from ares.store.foreign_answers import (
        HERE as HERE,
        ORIGIN as ORIGIN,
        RESTORES as RESTORES,
        UNCHANGED as UNCHANGED,
        ForeignAnswer as ForeignAnswer,
        check_people as check_people,
        count_uncounted_answers as count_uncounted_answers,
        counting_answers as counting_answers,
        file_origin as file_origin,
        follow_trust as follow_trust,
        keep_foreign_answers as keep_foreign_answers,
        list_uncounted_answers as list_uncounted_answers,
        origin_of as origin_of,
        original_answer_id as original_answer_id,
        person_of as person_of,
        read_foreign_answers as read_foreign_answers,
        say_earlier as say_earlier,
        trust_answers as trust_answers,
        with_known_columns as with_known_columns,
    )
    from ares.store.lance.corrections import (
        find_corrections as find_corrections,
        recorded_columns as recorded_columns,
        recorded_instruction as recorded_instruction,
    )
    from ares.store.lance.episode_snapshot import (
        DEEP_OFFSET as DEEP_OFFSET,
        EpisodeSnapshot as EpisodeSnapshot,
        SelectedRows as SelectedRows,
    )
    from ares.store.lance.episodes import EpisodeTable as EpisodeTable
    from ares.store.lance.lance_api import lance_errors as lance_errors
    from ares.store.lance.row_index import (
        EpisodeIdArray as EpisodeIdArray,
        EpisodeRowRuns as EpisodeRowRuns,
        RowIndex as RowIndex,
        best_rows_per_episode as best_rows_per_episode,
    )
    from ares.store.lance.schema import (
        EpisodeTableRows as EpisodeTableRows,
        arrow_type as arrow_type,
        episode_schema as episode_schema,
        is_column_name as is_column_name,
        records_to_table_rows as records_to_table_rows,
        type_mismatch as type_mismatch,
    )
    from ares.store.lance.segments import (
        StoredSegment as StoredSegment,
        make_stored_segments as make_stored_segments,
        segment_schema as segment_schema,
    )
    from ares.store.lance.text import TextHashes as TextHashes, WordRows as WordRows
    from ares.store.lance_tables import Tables as Tables
    from ares.store.log.protocol import (
        ACTIONS as ACTIONS,
        MODEL_REPLIES as MODEL_REPLIES,
        PURGES as PURGES,
        SPENT_PREFIX as SPENT_PREFIX,
        AnnotationRow as AnnotationRow,
        AnnotationStore as AnnotationStore,
        UnstorableError as UnstorableError,
        annotation_from_row as annotation_from_row,
        annotation_to_row as annotation_to_row,
        find_outdated_subjects as find_outdated_subjects,
        new_spending_key as new_spending_key,
        producer_from_text as producer_from_text,
        producer_to_text as producer_to_text,
        read_spending as read_spending,
        spending_document as spending_document,
    )
    from ares.store.log.sqlite import SqliteAnnotationStore as SqliteAnnotationStore
    from ares.store.manifest import workspace_exists as workspace_exists
    from ares.store.outdated import (
        forget_outdated as forget_outdated,
        hide_annotations as hide_annotations,
        outdate_annotations as outdate_annotations,
    )
    from ares.store.sql import (
        TrustedFilter as TrustedFilter,
        batched as batched,
        column_membership as column_membership,
        conjunction as conjunction,
        ids_filter as ids_filter,
        in_condition as in_condition,
        list_named_sets as list_named_sets,
        parenthesize as parenthesize,
        quote_literal as quote_literal,
        replace_membership as replace_membership,
    )
    from ares.store.stores import (
        Stores as Stores,
        check_ids_once as check_ids_once,
        open_stores as open_stores,
    )
    from ares.store.sync.apply import (
        applied_action as applied_action,
        applied_sequence as applied_sequence,
        find_unshowable_values as find_unshowable_values,
        load_applied_state as load_applied_state,
        read_episode_changes as read_episode_changes,
        rebuild_from_log as rebuild_from_log,
        reset_applied_actions as reset_applied_actions,
        reset_applied_sequence as reset_applied_sequence,
        skip_applied as skip_applied,
    )
    from ares.store.sync.producers import (
        CONFLICT as CONFLICT,
        DISAGREEMENT as DISAGREEMENT,
        REVIEWED as REVIEWED,
        REVIEWER as REVIEWER,
        ProducerCatalog as ProducerCatalog,
        declared_columns as declared_columns,
        pin_producers as pin_producers,
        producer_column as producer_column,
        read_pins as read_pins,
    )
    from ares.store.sync.projection_plugins import InstalledProjections as InstalledProjections
    from ares.store.sync.refresh import (
        conflict_changes as conflict_changes,
        find_outdated_values as find_outdated_values,
        list_removed_but_present as list_removed_but_present,
        list_restored_but_absent as list_restored_but_absent,
    )
    from ares.store.sync.shown_values import (
        keep_newest_annotations as keep_newest_annotations,
        read_rulings as read_rulings,
        segment_id as segment_id,
        select_shown as select_shown,
    )
    from ares.store.temp_db import StagedIds as StagedIds, TempDatabase as TempDatabase
    from ares.store.vectors.knn import VectorTableState as VectorTableState
    from ares.store.vectors.tables import (
        EpisodeVectors as EpisodeVectors,
        Moment as Moment,
        VectorTable as VectorTable,
    )
    from ares.store.vectors.texts import TextIds as TextIds

__getattr__ = lazy_exports(__name__)
