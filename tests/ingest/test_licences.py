"""Licence and consent of a dataset: read from its files or its spec, kept, and shown with what states them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ares import open as open_workspace
from ares_ingest.base import SourceOptions
from ares_ingest.licences import identify_licence, read_stated_facts
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.ingesting import ingest_paths


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ("MIT License\n\nCopyright (c) 2024 Some Lab\n\nPermission is hereby granted, free of charge", "mit"),
        ("                    Apache License\n                Version 2.0, January 2004\n", "apache-2.0"),
        ("Attribution-NonCommercial-ShareAlike 4.0 International\n\n=====\n", "cc-by-nc-sa-4.0"),
        ("Attribution 4.0 International", "cc-by-4.0"),
        ("Creative Commons Attribution 2.0", "cc-by-2.0"),
        ("CC BY-NC-ND 3.0", "cc-by-nc-nd-3.0"),
        (
            "Copyright 2020 X. Redistribution and use in source and binary forms ... Neither the name of",
            "bsd-3-clause",
        ),
        ("cc0-1.0", "cc0-1.0"),
        ("Only for members of the consortium.\nAsk us.", "Only for members of the consortium."),
    ],
)
def test_a_licence_is_told_by_its_words(text: str, identifier: str) -> None:
    assert identify_licence(text) == identifier


def test_each_kind_of_file_is_read_and_a_spec_decides_over_all(tmp_path: Path) -> None:
    """TensorFlow Datasets have what they say in the folder of a version and above it; a broken file says nothing."""
    folder = tmp_path / "bridge" / "1.0.0"
    (folder / "meta").mkdir(parents=True)
    (folder / "dataset_info.json").write_text(json.dumps({"redistributionInfo": {"license": "CC BY 4.0"}}))
    (folder / "meta" / "info.json").write_text("{broken")
    (folder.parent / "README.md").write_text("# Bridge\n\n## License\n\nReleased under Apache 2.0.\n")
    assert read_stated_facts(str(folder), {}) == {
        "licences": [
            {"value": "cc-by-4.0", "origin": "dataset_info.json"},
            {"value": "apache-2.0", "origin": "README.md"},
        ]
    }
    stated = read_stated_facts(str(folder), {"licence": "MIT", "consent": "all operators signed"})
    assert stated["licences"] == [{"value": "mit", "origin": "spec"}]
    assert stated["consents"] == [{"value": "all operators signed", "origin": "spec"}]


def test_what_is_stated_is_kept_with_the_dataset_and_shown(tmp_path: Path) -> None:
    """A licence that comes later is read by the next ingestion, though no episode is new; unknown is said."""
    folder = write_good_folder(tmp_path / "made", version="v3.0", lengths=(6, 9))
    workspace = open_workspace(tmp_path / "ws", create=True)

    def shown() -> list[tuple[str, str, str]]:
        ingest_paths(workspace.stores, [str(folder)], quiet=True)
        lines = workspace.sheet("made").lines
        return [
            (line.what, line.belief, line.origin) for line in lines if line.what in ("licence", "consent")
        ]

    assert shown() == [("licence", "unknown", "nothing"), ("consent", "unknown", "nothing")]
    (folder / "LICENSE").write_text("Attribution-NonCommercial 4.0 International")
    (folder / "README.md").write_text("---\nlicense: mit\nconsent: signed by all operators\n---\n# Made\n")
    assert shown() == [
        ("licence", "cc-by-nc-4.0, mit (they differ)", "LICENSE, README.md"),
        ("consent", "signed by all operators", "README.md"),
    ]
    spec = tmp_path / "made.yaml"
    spec.write_text("reference: ours\nlicence: cc-by-4.0\n")
    ingest_paths(workspace.stores, [str(folder)], SourceOptions(spec=str(spec)), quiet=True)
    assert shown()[0] == ("licence", "cc-by-4.0", "spec")
