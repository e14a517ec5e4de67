"""Checks: whether an episode is what it says and like its dataset, in its signals, times and pictures."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.checks.codes import (
        CODES as CODES,
        INDEX_GAP as INDEX_GAP,
        LATE_FRAMES as LATE_FRAMES,
        MODALITY_KEY as MODALITY_KEY,
        NOT_FINITE as NOT_FINITE,
        SPIKE as SPIKE,
        STALE_STATISTICS as STALE_STATISTICS,
        UNKNOWN_TASK as UNKNOWN_TASK,
        UNUSED_FRAMES as UNUSED_FRAMES,
        WRAP_AROUND as WRAP_AROUND,
        WRONG_SPLIT as WRONG_SPLIT,
        WRONG_TOTAL as WRONG_TOTAL,
        CheckCode as CheckCode,
        Severity as Severity,
    )
    from ares.checks.commanded_positions import commanded_position as commanded_position
    from ares.checks.episode import EpisodeCheck as EpisodeCheck, check_signals as check_signals
    from ares.checks.finding import QualityFinding as QualityFinding, find_check_code as find_check_code
    from ares.checks.jumps import find_spikes as find_spikes, find_turns as find_turns
    from ares.checks.record import (
        check_metadata as check_metadata,
        check_record as check_record,
        describe_incomplete as describe_incomplete,
        finding_reason as finding_reason,
        missing_cameras as missing_cameras,
    )
    from ares.checks.state_response import EpisodeActionLag as EpisodeActionLag
    from ares.checks.step_timing import count_idle_steps as count_idle_steps
    from ares.checks.video.dataset import (
        TypicalVideo as TypicalVideo,
        VideoCheck as VideoCheck,
        check_videos as check_videos,
        learn_typical_video as learn_typical_video,
    )
    from ares.checks.video.features import CameraFeatures as CameraFeatures
    from ares.checks.video.frame_changes import (
        FrameEdges as FrameEdges,
        begins_as_other_ends as begins_as_other_ends,
        frame_edges as frame_edges,
    )
    from ares.checks.video.frame_reading import camera_features as camera_features
    from ares.checks.video.frame_summary import (
        VideoSummary as VideoSummary,
        summarise_video as summarise_video,
    )
    from ares.checks.video.picture_quality import video_finding as video_finding

__getattr__ = lazy_exports(__name__)
