"""What signals are: an episode as arrays, the kinds of their dimensions, and what is typical of a dataset."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.signals.action_lag import (
        ActionLagEstimate as ActionLagEstimate,
        estimate_action_lag as estimate_action_lag,
    )
    from ares.signals.dimension_kinds import (
        CHECKED_KINDS as CHECKED_KINDS,
        DimensionKind as DimensionKind,
        are_smooth_kinds as are_smooth_kinds,
        classify_by_name as classify_by_name,
        classify_by_values as classify_by_values,
        name_tokens as name_tokens,
        parse_arm_name as parse_arm_name,
        value_evidence as value_evidence,
    )
    from ares.signals.gripper_levels import turned_commands as turned_commands
    from ares.signals.motion_lag import (
        LagPeak as LagPeak,
        LagProducts as LagProducts,
        block_products as block_products,
        find_lag_peak as find_lag_peak,
        lag_products as lag_products,
        longest_lag as longest_lag,
        moving_mean as moving_mean,
        resample_blocks as resample_blocks,
    )
    from ares.signals.plain_arrays import (
        ActionMeaning as ActionMeaning,
        EpisodeSignals as EpisodeSignals,
        episode_signals as episode_signals,
        paired_dimensions as paired_dimensions,
        with_continuous_rotations as with_continuous_rotations,
    )
    from ares.signals.positions import (
        EpisodePositions as EpisodePositions,
        episode_positions as episode_positions,
        pair_offsets as pair_offsets,
    )
    from ares.signals.signal_changes import (
        Correction as Correction,
        EpisodeRepair as EpisodeRepair,
        SignalChange as SignalChange,
        SignalDimension as SignalDimension,
        apply_signal_changes as apply_signal_changes,
        changed_trajectory as changed_trajectory,
        make_signal_change as make_signal_change,
    )
    from ares.signals.statistics import (
        FEWEST_STEPS as FEWEST_STEPS,
        KEPT_EPISODES as KEPT_EPISODES,
        DatasetStatistics as DatasetStatistics,
        EpisodeSignalSummary as EpisodeSignalSummary,
        TypicalEpisode as TypicalEpisode,
        TypicalSignal as TypicalSignal,
        cubic_residuals as cubic_residuals,
        fresh_share as fresh_share,
        period_jitter as period_jitter,
        summarise_signals as summarise_signals,
        switch_like as switch_like,
    )
    from ares.signals.step_runs import find_equal_steps as find_equal_steps, find_runs as find_runs
    from ares.signals.turned_dimensions import is_turned as is_turned
    from ares.signals.turned_responses import dimensions_against_commands as dimensions_against_commands

__getattr__ = lazy_exports(__name__)
