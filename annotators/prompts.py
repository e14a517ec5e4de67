"""Reads prompts, which are text files in the folder `prompts` of each annotator."""

from __future__ import annotations

from importlib.resources import files


def read_prompt(package: str, name: str) -> str:
    """The text of `prompts/NAME.txt` in a package, without its last line break."""
    return files(package).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")
