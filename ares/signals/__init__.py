"""What signals are: an episode as arrays, the kinds of their dimensions, and what is typical of a dataset."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.signals.arrays import (
        ActionAlignment as ActionAlignment,
        EpisodeSignals as EpisodeSignals,
        align_action as align_action,
        episode_signals as episode_signals,
        paired_dimensions as paired_dimensions,
        with_continuous_rotations as with_continuous_rotations,
    )
    from ares.signals.change import (
        Correction as Correction,
        EpisodeRepair as EpisodeRepair,
        SignalChange as SignalChange,
        SignalDimension as SignalDimension,
        apply_changes as apply_changes,
        changed_trajectory as changed_trajectory,
        make_change as make_change,
    )
    from ares.signals.kinds import (
        CHECKED_KINDS as CHECKED_KINDS,
        DimensionKind as DimensionKind,
        are_checked as are_checked,
        arm_of as arm_of,
        kinds_by_name as kinds_by_name,
        kinds_by_values as kinds_by_values,
        name_tokens as name_tokens,
        value_evidence as value_evidence,
    )
    from ares.signals.statistics import (
        FEWEST_STEPS as FEWEST_STEPS,
        KEPT_EPISODES as KEPT_EPISODES,
        DatasetStatistics as DatasetStatistics,
        EpisodeSummary as EpisodeSummary,
        TypicalEpisode as TypicalEpisode,
        TypicalSignal as TypicalSignal,
        summarise_signals as summarise_signals,
        switch_like as switch_like,
        unexplained as unexplained,
    )

__getattr__ = lazy_exports(__name__)
