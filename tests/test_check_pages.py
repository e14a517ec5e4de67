"""Every code of `ares check` has a page, which says what the catalogue says."""

from __future__ import annotations

from scripts.check_pages import FOLDER, pages


def test_the_pages_of_the_codes_are_as_the_catalogue_and_the_manual_say() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    assert written == pages(), "run `.venv/bin/python -m scripts.check_pages --write`"
