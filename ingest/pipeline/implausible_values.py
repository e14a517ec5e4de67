"""What the numbers of a record say that can hardly be meant: ends that are not marked, rewards that say nothing."""

from __future__ import annotations

from collections.abc import Iterator

from ares.episode import Record
from ares_ingest.episode_ends import find_ends_keys


def find_implausible_values(record: Record) -> Iterator[str]:
    """A warning for each thing that the reward, the progress and the flags of a record can hardly mean."""
    episode, trajectory = record.episode, record.trajectory
    by_key = {name.replace(".", "/"): signal.values for name, signal in trajectory.extra.items()}
    ends = find_ends_keys(by_key)  # of is_last the reader of RLDS says it
    if ends and "is_last" not in ends and not any(by_key[key].any() for key in ends):
        yield f"{' and '.join(ends).replace('/', '.')} is true at no step: the end of the episode is not marked"
    rewards = set() if trajectory.reward is None else {*trajectory.reward.tolist()}
    constant = [key for key in by_key if "progress" in key and (by_key[key] == by_key[key][:1]).all()]
    if len(rewards) == 1 and episode.success is not False:
        constant.append("the reward")
    yield from (
        f"{name.replace('/', '.')} is the same at every step" for name in constant if episode.num_steps > 2
    )
    has_verdict = episode.success is not None and rewards == {0.0, 1.0}
    if has_verdict and trajectory.reward is not None and bool(trajectory.reward[-1]) != episode.success:
        yield f"the reward of the last step contradicts the outcome by {episode.success_source}"
