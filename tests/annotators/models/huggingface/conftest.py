"""Tiny models of five real architectures, made once, and loaded as any model of a folder is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ares_annotators.models import load_huggingface
from ares_annotators.models.huggingface.vlm import HuggingfaceVlm
from tests.annotators.models.huggingface.tiny_models import FAMILIES


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny model, by its name."""
    root = tmp_path_factory.mktemp("tiny")
    return cache(lambda name: FAMILIES[name].save(root / name))


@pytest.fixture(scope="session")
def tiny_vlm(tiny_folder: Callable[[str], Path]) -> Callable[[str], HuggingfaceVlm]:
    """A loaded tiny model, by its name."""
    return cache(lambda name: load_huggingface(str(tiny_folder(name)), "cpu", 300))
