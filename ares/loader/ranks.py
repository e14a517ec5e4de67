"""Which process of a training this is, and of how many."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from ares.errors import RequestError
from ares.settings import read_rank


class RankOptions(TypedDict, total=False):
    """Both, or neither: then those of `torch.distributed`, else RANK and WORLD_SIZE of the environment.

    Attributes:
        rank: Number of this process, from 0.
        world_size: Number of processes.
    """

    rank: int
    world_size: int


class Rank(NamedTuple):
    """A process of a training: its number from 0, and the number of processes."""

    number: int
    world_size: int


def find_rank(options: RankOptions) -> Rank:
    """The process of a training. Raises RequestError for a number that is none of the processes."""
    if options:
        rank = Rank(options.get("rank", -1), options.get("world_size", 0))
    else:
        rank = _find_distributed_rank() or Rank(*read_rank())
    if not 0 <= rank.number < rank.world_size:
        detail = f"got rank={rank.number} and world_size={rank.world_size}; give both"
        raise RequestError("a rank is a number from 0, below world_size", detail)
    return rank


def _find_distributed_rank() -> Rank | None:
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    return Rank(distributed.get_rank(), distributed.get_world_size())
