"""One policy over all tasks: a small network that clones chunks of actions from states and the text of the task."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.curation.simulation import OBSERVED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A chunk has so many actions.
_CHUNK = 8
_WIDTH, _TEXT_WIDTH = 256, 16
_BATCH, _RATE = 256, 1e-3
# Noise of observations over their spread.
_NOISE = 0.02
# An observation that hardly moves counts for no more than one of this spread, in metres.
_LEAST_SCALE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demonstration:
    """What a policy learns from of one episode.

    Attributes:
        instruction: As recorded.
        observation: (T, 39).
        action: (T, 4).
    """

    instruction: str
    observation: NDArray[np.float32]
    action: NDArray[np.float32]


def train_policy(
    demonstrations: Sequence[Demonstration],
    instructions: Mapping[str, str],
    seed: int,
    steps: int,
    path: Path,
) -> None:
    """Train on one thread and write the weights, as `simulation.Policy` reads them.

    Args:
        demonstrations: Of all tasks.
        instructions: The true text of each task, which the policy is given when it acts.
        seed: Of the first weights and the batches.
        steps: Batches of the training.
        path: The npz that is written.
    """
    import numpy as np
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    observed = np.concatenate([part.observation[:, OBSERVED] for part in demonstrations])
    mean, scale = observed.mean(axis=0), np.maximum(observed.std(axis=0), _LEAST_SCALE)
    texts = np.concatenate(
        [np.tile(_text_vector(part.instruction), (len(part.action), 1)) for part in demonstrations]
    )
    inputs = torch.from_numpy(
        np.hstack([np.clip((observed - mean) / scale, -5, 5), texts]).astype(np.float32)
    )
    targets = torch.from_numpy(np.concatenate([_chunks(part.action) for part in demonstrations]))
    widths = [inputs.shape[1], _WIDTH, _WIDTH, _WIDTH, targets.shape[1]]
    layers = [torch.nn.Linear(*pair) for pair in pairwise(widths)]
    network = torch.nn.Sequential(*[part for layer in layers for part in (layer, torch.nn.ReLU())][:-1])
    optimiser = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    noise = _NOISE * torch.tensor([1.0] * len(OBSERVED) + [0.0] * _TEXT_WIDTH)
    for _ in range(steps):
        rows = torch.randint(len(inputs), (_BATCH,))
        said = network(inputs[rows] + noise * torch.randn(_BATCH, inputs.shape[1]))
        loss = torch.nn.functional.smooth_l1_loss(said, targets[rows], beta=0.1)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
    arrays = {"mean": mean, "scale": scale}
    arrays |= {f"text {task}": _text_vector(text) for task, text in instructions.items()}
    for number, layer in enumerate(layers):
        arrays |= {f"w{number}": layer.weight.detach().numpy(), f"b{number}": layer.bias.detach().numpy()}
    np.savez(path, **arrays)


def _text_vector(text: str) -> NDArray[np.float32]:
    """A vector of signs that stands for a text: other texts have others."""
    import numpy as np

    digest = hashlib.sha256(text.encode()).digest()
    bits = np.unpackbits(np.frombuffer(digest, np.uint8))[:_TEXT_WIDTH]
    return np.asarray(bits * 2.0 - 1, np.float32)


def _chunks(actions: NDArray[np.float32]) -> NDArray[np.float32]:
    """(T, K * 4): each action with those that follow; the last one goes on at the end."""
    import numpy as np

    rows = np.minimum(np.arange(len(actions))[:, None] + np.arange(_CHUNK), len(actions) - 1)
    return np.asarray(actions[rows].reshape(len(actions), -1), np.float32)
