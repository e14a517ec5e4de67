"""Images in MCAP recordings: selected by timestamp, for every kind of message, with clear errors for damage."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace as Message
from typing import Any

import cv2
import numpy as np
import pytest
from mcap.reader import make_reader
from mcap.writer import CompressionType
from mcap_protobuf.decoder import DecoderFactory as Protobuf
from mcap_ros2.decoder import DecoderFactory as Ros2
from numpy.typing import NDArray

from ares.episode import MediaRef
from ares.errors import MediaError
from ares.media import all_frames, frames_at
from ares.media.recordings.images import decode_access_units, is_keyframe
from tests.ares.media.written_videos import span_ref
from tests.ingest.recordings.mcap.conftest import START, Entry, header, write as write_recording

STEP = 50_000_000
COUNT = 30
write = partial(write_recording, chunk_size=4096)  # many small chunks


def shade(number: int, height: int = 32, width: int = 48) -> NDArray[np.uint8]:
    image = np.full((height, width, 3), (8 * number, 255 - 8 * number, 40), np.uint8)
    image[:, : width // 2, 2] = 200
    return image


def png(image: NDArray[np.uint8]) -> bytes:
    return cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1].tobytes()


def image_entries(count: int = COUNT, topic: str = "/cam") -> list[Entry]:
    return [
        (
            topic,
            "sensor_msgs/msg/CompressedImage",
            START + STEP * k + 7_000_000 * (k % 3),
            Message(header=header(START + STEP * k), format="png", data=png(shade(k))),
        )
        for k in range(count)
    ]


def topic_ref(path: Path, **changes: Any) -> MediaRef:
    return dataclasses.replace(span_ref(path, COUNT, 20.0, kind="mcap", key="/cam"), **changes)


def encode_access_units(codec: str, count: int, **options: str) -> list[bytes]:
    """Access units of an encoder without B-frames."""
    import av

    context: Any = av.CodecContext.create(codec, "w")
    context.width, context.height, context.pix_fmt = 64, 64, "yuv420p"
    context.framerate, context.time_base, context.gop_size = Fraction(20), Fraction(1, 20), 10
    context.max_b_frames = 0
    context.options = options
    access_units = []
    for number in range(count):
        frame = av.VideoFrame.from_ndarray(shade(number, 64, 64), format="rgb24")
        frame.pts = number
        access_units += [bytes(packet) for packet in context.encode(frame)]
    return access_units + [bytes(packet) for packet in context.encode(None)]


def video_entries(data: list[bytes], video_format: str) -> list[Entry]:
    return [
        (
            "/cam",
            "foxglove_msgs/msg/CompressedVideo",
            START + STEP * k,
            Message(
                timestamp=header(START + STEP * k).stamp, frame_id="", data=access_unit, format=video_format
            ),
        )
        for k, access_unit in enumerate(data)
    ]


ENCODERS: dict[str, tuple[str, dict[str, str]]] = {
    "h264": ("libx264", {"tune": "zerolatency", "preset": "veryfast", "sc_threshold": "0"}),
    "h265": ("libx265", {"x265-params": "bframes=0:keyint=10:log-level=none", "preset": "ultrafast"}),
    "av1": ("libsvtav1", {"preset": "12", "svtav1-params": "lp=1:pred-struct=1:keyint=10"}),
}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("images") / "a.mcap", image_entries())


def test_an_image_is_shown_from_its_header_stamp_on_not_from_when_it_was_logged(images: Path) -> None:
    shown = frames_at(topic_ref(images), [0.26, 0.0, 0.05, 0.0499, 0.047, -1.0, 99.0, 0.26])
    assert [int(frame[0, 0, 0]) // 8 for frame in shown] == [5, 0, 1, 1, 0, 0, 29, 5]
    assert np.array_equal(shown[0], shade(5))
    assert [int(frame[0, 0, 0]) // 8 for frame in all_frames(topic_ref(images))] == list(range(COUNT))


def test_timestamps_that_are_uneven_or_out_of_order_are_respected(tmp_path: Path) -> None:
    entries = image_entries()
    del entries[10:20]
    entries[3], entries[4] = entries[4], entries[3]
    path = write(tmp_path / "a.mcap", entries)
    ref = topic_ref(path, num_frames=20)
    assert [int(f[0, 0, 0]) // 8 for f in frames_at(ref, [0.15, 0.2, 0.46, 0.97, 1.0])] == [3, 4, 9, 9, 20]
    assert [int(f[0, 0, 0]) // 8 for f in all_frames(ref)] == [*range(10), *range(20, 30)]


def test_an_episode_that_starts_after_the_camera_and_one_before(images: Path) -> None:
    late = topic_ref(images, start_seconds=0.5, num_frames=10)
    assert [int(f[0, 0, 0]) // 8 for f in frames_at(late, [0.0, 0.1, 9.0])] == [10, 12, 19]
    assert [int(f[0, 0, 0]) // 8 for f in all_frames(late)] == list(range(10, 20))
    early = topic_ref(images, start_seconds=-0.5)
    assert [int(f[0, 0, 0]) // 8 for f in frames_at(early, [0.0, 0.5, 0.6])] == [0, 0, 2]


@pytest.mark.parametrize(
    ("encoding", "convert"),
    [("rgb8", lambda i: i), ("bgr8", lambda i: i[..., ::-1]), ("mono8", lambda i: i[..., :1])],
)
def test_raw_images_with_padded_rows(tmp_path: Path, encoding: str, convert: Callable[[Any], Any]) -> None:
    def message(number: int) -> Message:
        rows = convert(shade(number)).reshape(32, -1)
        padded = np.pad(rows, ((0, 0), (0, 5)))
        size = {"height": 32, "width": 48, "step": padded.shape[1], "is_bigendian": 0}
        at = header(START + STEP * number)
        return Message(header=at, encoding=encoding, data=padded.tobytes(), **size)

    entries = [("/cam", "sensor_msgs/msg/Image", START + STEP * k, message(k)) for k in range(COUNT)]
    (shown,) = frames_at(topic_ref(write(tmp_path / "a.mcap", entries)), [0.35])
    expected = shade(7)
    assert np.array_equal(shown, np.repeat(expected[..., :1], 3, 2) if encoding == "mono8" else expected)


@pytest.mark.parametrize("video_format", ["h264", "h265", "av1"])
def test_video_is_decoded_from_the_keyframe_before(tmp_path: Path, video_format: str) -> None:
    encoder, options = ENCODERS[video_format]
    data = encode_access_units(encoder, COUNT, **options)
    codec = "hevc" if video_format == "h265" else video_format
    keys = [number for number, unit in enumerate(data) if is_keyframe(codec, unit)]
    assert len(data) == COUNT and keys == [0, 10, 20]
    ref = topic_ref(write(tmp_path / "a.mcap", video_entries(data, video_format)))
    frames = list(all_frames(ref))
    assert len(frames) == COUNT
    assert all(abs(int(frame[40, 50, 0]) - 8 * k) < 12 for k, frame in enumerate(frames))
    numbers = [29, 3, 4, 15, 11, 0, 29]
    for number, frame in zip(numbers, frames_at(ref, [k / 20 for k in numbers]), strict=True):
        assert np.array_equal(frame, frames[number])


def test_only_what_a_frame_needs_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, options = ENCODERS["h264"]
    ref = topic_ref(
        write(tmp_path / "a.mcap", video_entries(encode_access_units(encoder, COUNT, **options), "h264"))
    )
    decoded_numbers: list[int] = []

    def counting_decoder(codec: str, access_units: Iterable[tuple[int, bytes]]) -> Any:
        def count_units() -> Iterator[tuple[int, bytes]]:
            for number, unit in access_units:
                decoded_numbers.append(number)
                yield number, unit

        return decode_access_units(codec, count_units())

    monkeypatch.setattr("ares.media.recordings.topic_frames.decode_access_units", counting_decoder)
    frames_at(ref, [22 / 20, 23 / 20])
    assert decoded_numbers == [20, 21, 22, 23]


def test_frames_before_the_first_keyframe_do_not_count(tmp_path: Path) -> None:
    encoder, options = ENCODERS["h264"]
    entries = video_entries(encode_access_units(encoder, COUNT, **options), "h264")[4:]
    ref = topic_ref(write(tmp_path / "a.mcap", entries), num_frames=20)
    assert abs(int(frames_at(ref, [0.0])[0][40, 50, 0]) - 80) < 12
    assert sum(1 for _ in all_frames(ref)) == 20


@pytest.mark.parametrize("compression", list(CompressionType))
def test_a_recording_of_several_files_with_any_compression(
    tmp_path: Path, compression: CompressionType
) -> None:
    entries = image_entries()
    for number in range(3):
        part = entries[number * 10 : number * 10 + 10]
        write(tmp_path / f"bag_{number}.mcap", part, compression=compression)
    listing = tmp_path / "metadata.yaml"
    names = "".join(f"  - bag_{number}.mcap\n" for number in range(3))
    listing.write_text(f"rosbag2_bagfile_information:\n  relative_file_paths:\n{names}")
    shown = frames_at(topic_ref(listing), [0.0, 0.95, 1.0, 1.45])
    assert [int(frame[0, 0, 0]) // 8 for frame in shown] == [0, 19, 20, 29]


def test_video_goes_on_across_the_files_of_a_recording(tmp_path: Path) -> None:
    encoder, options = ENCODERS["h264"]
    entries = video_entries(encode_access_units(encoder, COUNT, **options), "h264")
    frames = list(all_frames(topic_ref(write(tmp_path / "whole.mcap", entries))))
    write(tmp_path / "a.mcap", entries[:15])
    write(tmp_path / "b.mcap", entries[15:])
    listing = tmp_path / "metadata.yaml"
    listing.write_text("rosbag2_bagfile_information:\n  relative_file_paths: [a.mcap, b.mcap]\n")
    shown = frames_at(topic_ref(listing), [0.7, 0.8])
    assert np.array_equal(shown, [frames[14], frames[16]])


def test_a_truncated_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mcap", image_entries())
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 5])
    frame_count = sum(1 for _ in all_frames(topic_ref(cut, num_frames=10)))
    assert frame_count == 10
    with pytest.raises(MediaError, match="recording has fewer images"):
        frames_at(topic_ref(cut), [0.0])


def test_images_that_cannot_be_read_raise_media_errors(images: Path, tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="file is missing"):
        frames_at(topic_ref(tmp_path / "gone.mcap"), [0.0])
    with pytest.raises(MediaError, match=r"no such images: '/other'"):
        frames_at(topic_ref(images, key="/other"), [0.0])
    (tmp_path / "empty.mcap").write_bytes(b"")
    with pytest.raises(MediaError, match="file is empty"):
        list(all_frames(topic_ref(tmp_path / "empty.mcap")))
    entries = image_entries()
    entries[5][3].data = b"no image"
    bad = topic_ref(write(tmp_path / "bad.mcap", entries))
    assert len(frames_at(bad, [0.2])) == 1
    with pytest.raises(MediaError, match=r"image cannot be decoded: image 5 of '/cam'"):
        frames_at(bad, [0.25])


@pytest.mark.parametrize("size", [(0, 8, 24), (4, 0, 24), (4, 8, 23), (4, 8, 30)])
def test_raw_images_with_fewer_bytes_than_pixels(tmp_path: Path, size: tuple[int, int, int]) -> None:
    height, width, step = size
    fields = {"height": height, "width": width, "step": step, "is_bigendian": 0, "data": bytes(96)}
    message = Message(header=header(START), encoding="rgb8", **fields)
    path = write(tmp_path / "a.mcap", [("/cam", "sensor_msgs/msg/Image", START, message)])
    with pytest.raises(MediaError, match=r"image 0 of '/cam'.*fewer bytes than pixels"):
        frames_at(topic_ref(path, num_frames=1), [0.0])


def test_a_file_that_changes_is_read_anew(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mcap", image_entries())
    assert int(frames_at(topic_ref(path), [0.5])[0][0, 0, 0]) == 80
    write(path, image_entries()[::2])
    assert int(frames_at(topic_ref(path, num_frames=15), [0.59])[0][0, 0, 0]) == 80


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "topic"), [("ros2", "/camera/head/image/compressed"), ("foxglove_video", "/camera/head/video")]
)
def test_real_recordings_show_what_the_library_and_the_codec_say(
    shared_data: Path, name: str, topic: str
) -> None:
    path = shared_data / "mcap" / f"g1_ep010_{name}.mcap"
    with path.open("rb") as file:
        reader = make_reader(file, decoder_factories=[Ros2(), Protobuf()])
        data = [message.decoded_message.data for message in reader.iter_decoded_messages(topics=[topic])]
    if name == "ros2":
        read: Any = cv2.imdecode
        expected = [read(np.frombuffer(one, np.uint8), cv2.IMREAD_COLOR)[..., ::-1] for one in data]
    else:
        import av

        context: Any = av.CodecContext.create("h264", "r")
        packets = [*map(av.Packet, data), None]
        expected = [f.to_ndarray(format="rgb24") for packet in packets for f in context.decode(packet)]
    ref = span_ref(path, 290, 30.0, kind="mcap", key=topic)
    assert all(np.array_equal(a, b) for a, b in zip(all_frames(ref), expected, strict=True))
    numbers = [0, 1, 144, 200, 289]
    for number, frame in zip(numbers, frames_at(ref, [k / 30 for k in numbers]), strict=True):
        assert np.array_equal(frame, expected[number])
