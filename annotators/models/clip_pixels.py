"""The preprocessing of images for CLIP, on the device where that gives equal pixels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


_ON_TENSORS = ("Resize", "CenterCrop", "Normalize")

# On tensors these are a division by 255, and nothing: frames are RGB.
_BEFORE_TENSORS = ("ToTensor", "MaybeToTensor", "MaybeConvertMode", "_convert_to_rgb")

Pixels = Callable[[Sequence["NDArray[np.uint8]"]], "torch.Tensor"]


def make_pixel_preprocessor(transform: Any, device: str) -> Pixels | None:
    """A function from N RGB images, each (H, W, 3) uint8, to the pixels (N, 3, S, S) of the model on its device.

    Args:
        transform: open_clip's transform for one image.
        device: torch device.

    Returns:
        The function, or None where the transform has a step that is not known here.
    """
    steps = list(getattr(transform, "transforms", ()))
    names = [getattr(step, "__name__", type(step).__name__) for step in steps]
    if not steps or not set(names) <= {*_ON_TENSORS, *_BEFORE_TENSORS}:
        return None
    tensor_steps = [step for step, name in zip(steps, names, strict=True) if name in _ON_TENSORS]
    return lambda images: _preprocess_images(images, tensor_steps, device)


def _preprocess_images(
    images: Sequence[NDArray[np.uint8]], steps: Sequence[Any], device: str
) -> torch.Tensor:
    """Images of equal shape go through each step together."""
    import numpy as np
    import torch

    indices_by_shape: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for index, image in enumerate(images):
        indices_by_shape[image.shape].append(index)
    prepared: dict[int, torch.Tensor] = {}
    for indices in indices_by_shape.values():
        frames = torch.from_numpy(np.stack([images[index] for index in indices])).to(device)
        pixels = frames.permute(0, 3, 1, 2).float() / 255
        for step in steps:
            # Bicubic values beyond black and white are cut, as Pillow does.
            pixels = step(pixels).clamp(0, 1) if type(step).__name__ == "Resize" else step(pixels)
        prepared |= dict(zip(indices, pixels, strict=True))
    return torch.stack([prepared[index] for index in range(len(images))])
