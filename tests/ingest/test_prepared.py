"""A prepared dataset of tensorflow-datasets is its folder; its name is refused with that folder."""

from __future__ import annotations

import pytest

from app.cli.main import main


@pytest.mark.parametrize("command", ["ingest", "check"])
def test_the_name_of_a_prepared_dataset_is_refused_with_its_folder(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "tfds:bridge_dataset:1.0.0"]) == 2
    error = capsys.readouterr().err
    assert (
        "give the folder of the prepared dataset, such as ~/tensorflow_datasets/bridge_dataset/1.0.0" in error
    )
    with pytest.raises(SystemExit, match="2"):
        main([command, "some/path", "--data-dir", "x"])
    assert "give the folder of a prepared dataset" in capsys.readouterr().err
