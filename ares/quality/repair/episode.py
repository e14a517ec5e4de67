"""Corrects one episode; a correction is kept only where the checks are content with it afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ares.quality.catalogue import SPIKE, WRAP_AROUND
from ares.quality.episode_check import check_signals
from ares.quality.finding import QualityFinding
from ares.quality.repair.change import Correction, apply_changes
from ares.quality.repair.turns import unwrap_turns
from ares.quality.repair.values import fill_gaps, flatten_spikes
from ares.quality.signals import EpisodeSignals
from ares.quality.statistics import TypicalEpisode

# Angles first: a whole turn hides the spikes of its dimension.
_CORRECTIONS = ((WRAP_AROUND.code, unwrap_turns), (SPIKE.code, flatten_spikes))


def repair_signals(signals: EpisodeSignals, typical: TypicalEpisode | None) -> tuple[Correction, ...]:
    """What is corrected in an episode, and what of the same codes is left with a reason.

    Nothing is corrected in an episode that keeps values that are not finite: no export holds such an episode.

    Args:
        signals: The episode.
        typical: What it is checked against; None where nothing is known, then only gaps are filled.
    """
    done = list(fill_gaps(signals))
    if any(correction.left for correction in done):
        reason = "the episode has gaps that are left"
        return tuple(replace(part, changes=(), left=part.left or reason) for part in done)
    signals = _corrected(signals, done)
    if typical is None or len(typical.state.range) != signals.state.shape[1]:
        return tuple(done)
    for code, correct in _CORRECTIONS:
        findings = check_signals(signals, typical).findings
        named = [finding.dimension for finding in findings if finding.code == code]
        for correction in correct(signals, typical, named) if named else ():
            kept = _verified(signals, typical, correction)
            signals = _corrected(signals, [kept])
            done.append(kept)
    return tuple(done)


def _corrected(signals: EpisodeSignals, corrections: Sequence[Correction]) -> EpisodeSignals:
    """The episode with its changes, in the precision of the export."""
    import numpy as np

    changes = [change for correction in corrections for change in correction.changes]
    if not changes:
        return signals
    parts = {
        name: apply_changes(values.astype(np.float32), [c for c in changes if c.signal == name])
        for name, values in (("state", signals.state), ("action", signals.action))
    }
    return replace(
        signals, state=parts["state"].astype(np.float64), action=parts["action"].astype(np.float64)
    )


def _verified(signals: EpisodeSignals, typical: TypicalEpisode, correction: Correction) -> Correction:
    """The correction; without its changes where the checks name it again, or name anything new."""
    if not correction.changes:
        return correction
    before = _finding_keys(check_signals(signals, typical).findings)
    after = _finding_keys(check_signals(_corrected(signals, [correction]), typical).findings)
    own_key = (correction.code, correction.signal, correction.dimension)
    if own_key in after:
        return replace(correction, changes=(), left="the check names it again after a correction")
    new = sorted({code for code, _, _ in after - before})
    if new:
        return replace(
            correction, changes=(), left=f"a correction makes other checks report: {', '.join(new)}"
        )
    return correction


def _finding_keys(findings: Sequence[QualityFinding]) -> set[tuple[str, str, str]]:
    return {(finding.code, finding.signal, finding.dimension) for finding in findings}
