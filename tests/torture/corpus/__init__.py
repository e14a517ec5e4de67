"""The hostile corpus: every case, by class."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.corpus import bombs, episode_folders, lies, listings, reaching_out, special_files, texts
from tests.torture.corpus.case import Case


def all_cases() -> Iterator[Case]:
    """Every hostile case, in a fixed order."""
    for module in (bombs, lies, listings, reaching_out, texts, episode_folders, special_files):
        yield from module.cases()
