"""LeRobot on Lance: the rows, videos and metadata of an export as tables; lerobot's own reader is in verify-exports."""

from __future__ import annotations

import io
import json
from pathlib import Path

import av
import lance

from ares.export.lerobot.exporter import export_lerobot_lance
from ares.registry import exporters
from ares.workspace import Workspace
from tests.ares.export.made_episodes import read_rows


def test_tables_have_what_the_files_of_an_export_have(sample_workspace: Workspace, tmp_path: Path) -> None:
    if "lerobot-lance" not in exporters.names():
        exporters.add("lerobot-lance", export_lerobot_lance)
    report = sample_workspace.export("video", tmp_path / "lance", format="lerobot-lance", quiet=True)
    sample_workspace.export("video", tmp_path / "files", format="lerobot", quiet=True)
    assert report.copied_packets and not report.encoded_frames
    assert not (tmp_path / "lance" / "data").exists() and not (tmp_path / "lance" / "videos").exists()
    rows = lance.dataset(str(tmp_path / "lance" / "frames.lance")).to_table().to_pylist()
    expected = [
        {name.replace(".", "_"): value for name, value in row.items()}
        for row in read_rows(tmp_path / "files")
    ]
    assert rows == expected and [row["index"] for row in rows] == list(range(report.frames))

    videos = lance.dataset(str(tmp_path / "lance" / "videos.lance"))
    table = videos.to_table(columns=["video_key", "chunk_index", "file_index", "moov_offset", "kf_positions"])
    for number, row in enumerate(table.to_pylist()):
        (blob,) = videos.take_blobs("video_bytes", indices=[number])
        assert blob
        content = blob.readall()
        name = f"chunk-{row['chunk_index']:03}/file-{row['file_index']:03}.mp4"
        assert content == (tmp_path / "files" / "videos" / row["video_key"] / name).read_bytes()
        assert content[row["moov_offset"] + 4 :][:4] == b"moov"
        with av.open(io.BytesIO(content), "r") as container:
            keys = [packet.pos for packet in container.demux(video=0) if packet.is_keyframe and packet.size]
        assert row["kf_positions"] == keys
    assert table.num_rows == 2

    meta = lance.dataset(str(tmp_path / "lance" / "meta.lance")).to_table().to_pylist()
    stored = {row["path"]: row["data"] for row in meta}
    assert json.loads(stored["info.json"])["storage_format"] == "lance"
    folder = tmp_path / "lance" / "meta"
    assert stored == {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
