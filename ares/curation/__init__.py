"""Selections of episodes, actions on them, and frozen sets of them."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.curation.composition import (
        SET_OPERATIONS as SET_OPERATIONS,
        ComposedSelection as ComposedSelection,
        CompositionRules as CompositionRules,
        SetOperation as SetOperation,
        combine_members as combine_members,
        combine_sets as combine_sets,
        compose_selection as compose_selection,
        parse_shares as parse_shares,
    )
    from ares.curation.control_sets import (
        Controls as Controls,
        create_control_sets as create_control_sets,
        draw_controls as draw_controls,
    )
    from ares.curation.copies import (
        WHAT_IS_KNOWN as WHAT_IS_KNOWN,
        Copies as Copies,
        CopyPair as CopyPair,
        find_copies as find_copies,
        read_rows as read_rows,
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
        apply_acceptances as apply_acceptances,
        episodes_of_failures as episodes_of_failures,
        failures_of as failures_of,
        list_failures as list_failures,
    )
    from ares.curation.group_statistics import (
        OTHER_OUTCOME as OTHER_OUTCOME,
        GroupCounts as GroupCounts,
        GroupStatistics as GroupStatistics,
        count_groups as count_groups,
    )
    from ares.curation.lock_files import (
        SetLock as SetLock,
        read_lock as read_lock,
    )
    from ares.curation.purge import (
        PurgeReport as PurgeReport,
        complete_interrupted as complete_interrupted,
        complete_purges as complete_purges,
        count_pending_purges as count_pending_purges,
        find_same_purge as find_same_purge,
        finish_purges as finish_purges,
        purge_episodes as purge_episodes,
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
    from ares.curation.selection import (
        SOURCE_ORDER as SOURCE_ORDER,
        SelectedEpisodes as SelectedEpisodes,
        create_composed_set as create_composed_set,
        create_set as create_set,
        create_set_of_spans as create_set_of_spans,
        hash_request as hash_request,
        purgeable_ids as purgeable_ids,
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
        keep_brought_rows as keep_brought_rows,
        read_sides as read_sides,
        write_split_rows as write_split_rows,
    )
    from ares.curation.splits import (
        SplitPlan as SplitPlan,
        SplitRequest as SplitRequest,
        create_split_sets as create_split_sets,
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
