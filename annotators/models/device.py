"""The torch device of a model, checked before the model is loaded, and batches of vectors on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ares.errors import RequestError
from ares.extras import needs_extra

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


def select_device(device: str) -> str:
    """A torch device that is on this machine.

    Args:
        device: For example "cpu", "cuda" or "cuda:1"; "" for a GPU when there is one.

    Raises:
        RequestError: There is no such device, on this machine or at all, or it is "all", or torch is not installed.
    """
    with needs_extra("models"):
        import torch

    if device == "all":
        raise RequestError(
            "this model runs on one device", f"--device {device}; give cpu, cuda or cuda:NUMBER"
        )
    if not device:
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = device.partition(":")
    if kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            raise RequestError("torch sees no GPU here", f"--device {device}; give --device cpu, or none")
        if number.isdigit() and int(number) >= count:
            raise RequestError(f"there is no GPU {number}", f"they are numbered from 0 to {count - 1}")
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        cause = str(error).splitlines()[0][:200]
        raise RequestError(f"no device {device!r}", f"{cause}; give cpu, cuda or cuda:NUMBER") from None
    return device


def encode_batches(
    items: Sequence[Any],
    encode_batch: Callable[[Sequence[Any]], torch.Tensor],
    batch_size: int,
    device: str,
    dim: int,
) -> NDArray[np.float32]:
    """(N, D) vectors of N items, in batches; with half precision on a GPU.

    Where half precision has no number for a value, the batch is encoded again with single precision.

    Args:
        items: Images or texts.
        encode_batch: Vectors (M, D) of M items.
        batch_size: Most items of a batch.
        device: torch device.
        dim: Length D of the vectors, for no items.
    """
    import numpy as np
    import torch

    if not len(items):
        return np.empty((0, dim), np.float32)
    vectors = []
    with torch.inference_mode():
        for start in range(0, len(items), batch_size):
            batch = items[start : start + batch_size]
            with torch.autocast("cuda", torch.float16, enabled=device.startswith("cuda")):
                encoded = encode_batch(batch).float()
            vectors.append(encoded if bool(torch.isfinite(encoded).all()) else encode_batch(batch).float())
        joined: NDArray[np.float32] = torch.cat(vectors).cpu().numpy()
    return joined
