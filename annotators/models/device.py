"""The torch device of a model: the user's, checked before the model is loaded, or a GPU when there is one."""

from __future__ import annotations

from ares.errors import RequestError
from ares.extras import needs_extra


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
