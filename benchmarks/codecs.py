"""Speed, size and quality of copied images, for both codecs and several settings, on frames of given sources.

python -m benchmarks.codecs SOURCE... [--browser /usr/bin/chromium]
"""

from __future__ import annotations

import argparse
import base64
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ares.episode import MediaRef
from ares.media import all_frames, encoded_frames, frames_at
from ares.media.video import VideoEncoding, encode_mp4

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FRAMES = 600
_FRAMES_PER_REQUEST = 8
_ROUNDS = 3
_PLAY_AND_SEEK = """async () => {
  const video = document.querySelector("video");
  await video.play();
  video.currentTime = video.duration / 2;
  await new Promise((done, failed) => { video.onseeked = done; video.onerror = failed; });
  return `played, ${video.videoWidth} x ${video.videoHeight}, ${video.duration.toFixed(2)} s`;
}"""
_X264 = {"sc_threshold": "0", "mbtree": "0"}
_SVT = {"svtav1-params": "lp=1"}
ENCODINGS = [
    *(
        VideoEncoding("libx264", {"preset": preset, "crf": crf, **_X264}, every)
        for preset, crf, every in (
            ("veryfast", "18", 2),
            ("veryfast", "18", 10),
            ("veryfast", "18", 30),
            ("veryfast", "21", 10),
            ("medium", "18", 10),
        )
    ),
    *(
        VideoEncoding("libsvtav1", {"preset": preset, "crf": crf, **_SVT}, every)
        for preset, crf, every in (
            ("12", "30", 2),
            ("10", "20", 2),
            ("10", "20", 10),
            ("10", "20", 30),
            ("10", "28", 10),
            ("8", "20", 10),
        )
    ),
]


@dataclass(frozen=True, slots=True)
class CodecClip:
    """Frames of one camera of one episode, (T, H, W, 3) uint8 RGB, and their bytes in the source."""

    frames: NDArray[np.uint8]
    rate_hz: float
    num_bytes: int


def main() -> None:
    """Measure every setting on every source and print a table for each."""
    parser = argparse.ArgumentParser(description="Encode the frames of episodes with both codecs.")
    parser.add_argument("source", nargs="+", help="dataset, as `ares ingest` takes it")
    parser.add_argument("--browser", help="path of a Chromium that plays and seeks a clip of each codec")
    args = parser.parse_args()
    for source in args.source:
        clips = _read_clips(source)
        height, width = clips[0].frames.shape[1:3]
        count = sum(len(clip.frames) for clip in clips)
        stored = sum(clip.num_bytes for clip in clips) / count
        size = f"{count} frames of {width} x {height}, {stored:.0f} bytes each"
        print(f"\n{Path(source).name}: {len(clips)} clips, {size}\n")
        print("| encoder | frames/s | bytes a frame | PSNR | SSIM | 8 frames of an episode |\n|" + "---|" * 6)
        for encoding in ENCODINGS:
            print(_measure_encoding(encoding, clips), flush=True)
        if args.browser:
            print("\n" + "; ".join(_play_in_browser(args.browser, clips[0])))


def _read_clips(source: str) -> list[CodecClip]:
    from ares.errors import MediaError
    from ingest.base import IngestOptions
    from ingest.detect import open_sources

    clips: list[CodecClip] = []
    for source_of_clips in open_sources([source], IngestOptions(rate_hz=10.0), "auto"):
        for item in source_of_clips.items:
            for camera in item.load().episode.cameras:
                if camera.flags or sum(len(clip.frames) for clip in clips) >= _FRAMES:
                    continue
                frames = frames_at(
                    camera.media, [k / camera.media.rate_hz for k in range(camera.media.num_frames)]
                )
                try:
                    stored = sum(map(len, encoded_frames(camera.media)))
                except MediaError:
                    stored = frames.nbytes if camera.media.kind != "mp4" else 0
                clips.append(CodecClip(frames, camera.media.rate_hz, stored))
    return clips


def _measure_encoding(encoding: VideoEncoding, clips: Sequence[CodecClip]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.mp4") for number in range(len(clips))]
        times = [_encode(encoding, clips, files) for _ in range(_ROUNDS)]
        refs = [_media_ref(file, clip) for file, clip in zip(files, clips, strict=True)]
        size = sum(file.stat().st_size for file in files)
        psnr, ssim = _quality(refs, clips)
        latency = statistics.median(_latency(refs) for _ in range(_ROUNDS))
    count = sum(len(clip.frames) for clip in clips)
    options = " ".join(f"{key} {encoding.options[key]}" for key in ("preset", "crf"))
    return (
        f"| {encoding.encoder} {options} g {encoding.keyframe_every} | {count / statistics.median(times):.0f} "
        f"| {size / count:.0f} | {psnr:.1f} dB | {ssim:.4f} | {latency * 1e3:.1f} ms |"
    )


def _play_in_browser(browser: str, clip: CodecClip) -> Iterator[str]:
    """Whether a browser plays a clip of each encoder, after a seek to its middle."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        page = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        for encoder in ("libx264", "libsvtav1"):
            encoding = next(candidate for candidate in ENCODINGS if candidate.encoder == encoder)
            encode_mp4(clip.frames, file := Path(folder, f"{encoder}.mp4"), clip.rate_hz, encoding)
            data = base64.b64encode(file.read_bytes()).decode()
            page.set_content(f'<video src="data:video/mp4;base64,{data}" muted></video>')
            yield f"{encoder}: {page.evaluate(_PLAY_AND_SEEK)}"


def _encode(encoding: VideoEncoding, clips: Sequence[CodecClip], files: Sequence[Path]) -> float:
    start = time.perf_counter()
    for clip, file in zip(clips, files, strict=True):
        encode_mp4(clip.frames, file, clip.rate_hz, encoding)
    return time.perf_counter() - start


def _media_ref(file: Path, clip: CodecClip) -> MediaRef:
    count = len(clip.frames)
    return MediaRef(
        kind="mp4",
        uri=str(file),
        start_seconds=0.0,
        stop_seconds=count / clip.rate_hz,
        num_frames=count,
        rate_hz=clip.rate_hz,
    )


def _quality(refs: Sequence[MediaRef], clips: Sequence[CodecClip]) -> tuple[float, float]:
    """Mean PSNR and SSIM of all frames, over the three colour channels."""
    pairs = [
        (_psnr(decoded, frame), _ssim(decoded, frame))
        for ref, clip in zip(refs, clips, strict=True)
        for decoded, frame in zip(_decoded_frames(ref, clip), clip.frames, strict=True)
    ]
    return statistics.fmean(scores[0] for scores in pairs), statistics.fmean(scores[1] for scores in pairs)


def _decoded_frames(ref: MediaRef, clip: CodecClip) -> Iterator[NDArray[np.uint8]]:
    height, width = clip.frames.shape[1:3]
    return (frame[:height, :width] for frame in all_frames(ref))


def _psnr(decoded: NDArray[np.uint8], frame: NDArray[np.uint8]) -> float:
    import cv2

    return float(cv2.PSNR(decoded, frame))


def _ssim(decoded: NDArray[np.uint8], frame: NDArray[np.uint8]) -> float:
    """Structural similarity with the Gaussian window of Wang et al. (2004): 11 pixels, sigma 1.5."""
    import cv2
    import numpy as np

    def blur(picture: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(cv2.GaussianBlur(picture, (11, 11), 1.5), np.float64)

    first, second = decoded.astype(np.float64), frame.astype(np.float64)
    mean_first, mean_second = blur(first), blur(second)
    var_first = blur(first * first) - mean_first**2
    var_second = blur(second * second) - mean_second**2
    covariance = blur(first * second) - mean_first * mean_second
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    numerator = (2 * mean_first * mean_second + c1) * (2 * covariance + c2)
    return float((numerator / ((mean_first**2 + mean_second**2 + c1) * (var_first + var_second + c2))).mean())


def _latency(refs: Sequence[MediaRef]) -> float:
    """Seconds to read random frames of one episode, as in benchmark 6."""
    rng = random.Random(6)
    requests = [
        (ref, sorted(rng.uniform(0, ref.num_frames / ref.rate_hz) for _ in range(_FRAMES_PER_REQUEST)))
        for ref in [*refs] * max(1, 40 // len(refs))
    ]
    start = time.perf_counter()
    for ref, seconds in requests:
        frames_at(ref, seconds)
    return (time.perf_counter() - start) / len(requests)


if __name__ == "__main__":
    main()
