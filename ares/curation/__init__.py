"""Selections of episodes, actions on them, and frozen sets of them."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.curation.composition import (
        SET_OPERATIONS as SET_OPERATIONS,
        ComposedSelection as ComposedSelection,
        CompositionRules as CompositionRules,
        SetOperation as SetOperation,
        combine_sets as combine_sets,
        compose_selection as compose_selection,
    )
    from ares.curation.control_sets import (
        Controls as Controls,
        draw_controls as draw_controls,
        freeze_controls as freeze_controls,
    )
    from ares.curation.copies import (
        WHAT_IS_KNOWN as WHAT_IS_KNOWN,
        Copies as Copies,
        CopyPair as CopyPair,
        find_copies as find_copies,
    )
    from ares.curation.duplicate_groups import (
        DUPLICATE_GROUP as DUPLICATE_GROUP,
        DuplicateGroup as DuplicateGroup,
        keep_duplicate_groups as keep_duplicate_groups,
        list_duplicate_pairs as list_duplicate_pairs,
    )
    from ares.curation.failures import (
        Failure as Failure,
        FailureSelection as FailureSelection,
        accept_failures as accept_failures,
        apply_failure_clearings as apply_failure_clearings,
        clear_failures as clear_failures,
        episodes_of_failures as episodes_of_failures,
        failures_of as failures_of,
        list_failures as list_failures,
    )
    from ares.curation.group_statistics import (
        GroupCounts as GroupCounts,
        GroupStatistics as GroupStatistics,
        count_groups as count_groups,
    )
    from ares.curation.lock_files import (
        LOCK_FIELDS as LOCK_FIELDS,
        IsoTime as IsoTime,
        parse_lock as parse_lock,
        read_lock_document as read_lock_document,
    )
    from ares.curation.overlap import (
        SetOverlap as SetOverlap,
        find_overlap as find_overlap,
    )
    from ares.curation.purge import (
        PurgeReport as PurgeReport,
        complete_interrupted as complete_interrupted,
        complete_purges as complete_purges,
        count_pending_purges as count_pending_purges,
        find_same_purge as find_same_purge,
        finish_purges as finish_purges,
        purge_episodes as purge_episodes,
        purgeable_ids as purgeable_ids,
    )
    from ares.curation.removal import (
        UndoReport as UndoReport,
        completed_removal as completed_removal,
        remove_episodes as remove_episodes,
        undo as undo,
    )
    from ares.curation.removal_preview import (
        RemovalPreview as RemovalPreview,
        count_removed_members as count_removed_members,
        preview_removal as preview_removal,
    )
    from ares.curation.saved_views import (
        SavedView as SavedView,
        delete_view as delete_view,
        list_views as list_views,
        save_view as save_view,
    )
    from ares.curation.selection import (
        SOURCE_ORDER as SOURCE_ORDER,
        SelectedEpisodes as SelectedEpisodes,
        freeze_composition as freeze_composition,
        freeze_selection as freeze_selection,
        freeze_spans as freeze_spans,
        hash_request as hash_request,
        select_episodes as select_episodes,
        selected_ids as selected_ids,
        span_of_segment as span_of_segment,
    )
    from ares.curation.sets import (
        EXPORTS as EXPORTS,
        CurationSet as CurationSet,
        SetDiff as SetDiff,
        Sets as Sets,
        hash_members as hash_members,
        stream_json as stream_json,
    )
    from ares.curation.split_tables import (
        SplitRow as SplitRow,
        carried_name as carried_name,
        carried_split as carried_split,
        write_split_rows as write_split_rows,
    )
    from ares.curation.splits import (
        SplitPlan as SplitPlan,
        SplitRequest as SplitRequest,
        freeze_split as freeze_split,
        plan_split as plan_split,
    )
    from ares.curation.tags_and_notes import (
        TagUse as TagUse,
        add_note as add_note,
        add_tag as add_tag,
        check_note as check_note,
        choose_shown_producers as choose_shown_producers,
        list_tags as list_tags,
        notes_of as notes_of,
        producer_catalog as producer_catalog,
        remove_tag as remove_tag,
        tags_of as tags_of,
    )
    from ares.curation.trajectory_pairs import (
        StoredTrajectories as StoredTrajectories,
        WindowRule as WindowRule,
        propose_pairs as propose_pairs,
    )
    from ares.curation.user_columns import set_values as set_values

__getattr__ = lazy_exports(__name__)
