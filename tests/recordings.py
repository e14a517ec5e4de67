"""Recordings of what must stay the same: text files in tests/fixtures/recorded.

A recording that is not there is written and fails the test once: delete one to record it again, and look at the
difference before it is committed.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

RECORDED = Path(__file__).resolve().parent / "fixtures" / "recorded"
_ROOT = Path(__file__).resolve().parent.parent
# The version in a manifest and in SARIF; the recordings have the one that recorded them.
_VERSION = re.compile(r'("ares": |"name": "ares check",\s+"version": )"[^"]+"')


def compare_with_recording(name: str, said: str) -> None:
    """Fail when a text is another than the recorded one, or when there was none."""
    file = RECORDED / name
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(said)
        pytest.fail(f"{file} was not there; it is recorded now")
    assert said == file.read_text()


def compare_words(name: str, words: Any) -> None:
    """Compare JSON of one word a line."""
    compare_with_recording(name, json.dumps(words, indent=1, sort_keys=True) + "\n")


def comparable(text: str, folder: Path) -> str:
    """Without what differs from run to run: folders, versions, durations, times, and digits that models leave open."""
    text = _VERSION.sub(r'\1"0.1.0"', without_folders(text, folder))
    text = re.sub(r'("person": )"[^"]*"', r'\1"USER"', text)
    text = re.sub(r'("members": )"[0-9a-f]{32}"', r'\1"RANDOM"', text)
    # Labels of a card have times in them.
    text = re.sub(r'("sha256": )"[0-9a-f]{64}"(?=,\s+"annotations": )', r'\1"HASH"', text)
    text = re.sub(r'("?(?:seconds|p50_ms)"?: )[0-9.]+', r"\1N", text)
    return re.sub(r"(\d\.\d\d)\d+", r"\1", without_times(text))


def without_folders(text: str, folder: Path) -> str:
    """With names for the folder of the test and for the checkout."""
    return text.replace(str(folder), "FOLDER").replace(str(_ROOT), "REPOSITORY")


def without_times(text: str) -> str:
    """With "TIME" for every time of day in ISO 8601."""
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[0-9.:+]*Z?", "TIME", text)
