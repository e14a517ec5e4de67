"""Prompts: the texts that models are given, one file each."""

from __future__ import annotations

from importlib.resources import files


def prompt(name: str) -> str:
    """The text of a prompt file, without its last line break."""
    return files("annotators.prompts").joinpath(f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")
