"""Outcomes in names are proposed with the name, never assumed; a spec accepts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares.settings import settings_from_environment
from ares.workspace import open_workspace
from ares_ingest.base import SourceOptions
from ares_ingest.path_outcome import outcome_in_path
from tests.ingest.image_folders.conftest import write_episode
from tests.ingesting import ingest_paths


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("success/run_1.mcap", (True, "success")),
        ("2024/failed_3.mp4", (False, "failed_3.mp4")),
        ("RunFailed12/a.bag", (False, "RunFailed12")),
        ("unsuccessful/a", (False, "unsuccessful")),
        ("success/failure_2", None),
        ("success_and_failure/run_2", None),
        ("not_successful/a", None),
        ("successor/failover", None),
        ("fail-safe-test/1", (False, "fail-safe-test")),
        ("", None),
    ],
)
def test_whole_words_suggest_an_outcome(path: str, outcome: tuple[bool, str] | None) -> None:
    assert outcome_in_path(path) == outcome


@pytest.mark.slow
def test_it_is_metadata_until_a_spec_accepts_it(tmp_path: Path) -> None:
    root = tmp_path / "drawers"
    for name in ("success_0", "failed_1", "run_2"):
        write_episode(root / name, {"force_x": [float(len(name))] * 10})
    write_episode(root / "failed_3", success=True)
    spec = tmp_path / "spec.yaml"
    spec.write_text("reference: me\noutcome_in_path: true\n")
    results = []
    for number, options in enumerate((SourceOptions(), SourceOptions(spec=str(spec)))):
        workspace = open_workspace(str(tmp_path / f"workspace{number}"), settings_from_environment({}))
        counts = ingest_paths(workspace.stores, [str(root)], options, quiet=True).counts
        table = workspace.stores.tables.episodes
        episodes = {episode.key: episode for episode in table.get(sorted(table.ids()))}
        results.append((counts, episodes))
        workspace.close()
    (counts, proposed), (_, accepted) = results
    assert [proposed[key].success for key in sorted(proposed)] == [None, True, None, None]
    assert proposed["failed_1"].metadata["proposed_success"] is False
    assert proposed["failed_1"].metadata["proposed_success_source"] == "failed_1"
    assert "proposed_success" not in proposed["failed_3"].metadata
    (reason,) = [reason for reason in counts.warnings if "outcome_in_path" in reason]
    assert counts.warnings[reason].count == 2
    assert [accepted[key].success for key in sorted(accepted)] == [False, True, None, True]
