"""The codes of the video checks, with the strengths that were committed before the checks were written."""

from __future__ import annotations

from ares.quality.code_definition import CheckCode

BLUR = CheckCode(
    code="A030",
    name="video-blur",
    meaning="the picture loses its detail for a time, or in one episode",
    size_unit="s",
    strength=0.01,
    strength_unit="of the picture's width: deviation of a Gaussian blur, for 1 s",
    remedy="check the focus and the lens; cut the span out",
)
OVEREXPOSED = CheckCode(
    code="A031",
    name="video-overexposed",
    meaning="the picture is much brighter than usual and loses its light parts",
    size_unit="stops",
    strength=2,
    strength_unit="stops too much light for 1 s",
    remedy="fix the exposure of the camera; cut the span out",
)
UNDEREXPOSED = CheckCode(
    code="A032",
    name="video-underexposed",
    meaning="the picture is much darker than usual",
    size_unit="stops",
    strength=2,
    strength_unit="stops too little light for 1 s",
    remedy="fix the exposure and the light; cut the span out",
)
BLACK = CheckCode(
    code="A033",
    name="video-black",
    meaning="frames are black",
    size_unit="s",
    strength=0.2,
    strength_unit="s",
    remedy="check the camera and its cable; leave the camera or the span out",
    severity="fault",
)
FROZEN = CheckCode(
    code="A034",
    name="video-frozen",
    meaning="the picture stands still for half a second or longer while the robot or the scene moves",
    size_unit="s",
    strength=1,
    strength_unit="s during motion",
    remedy="check the camera and the load of the recorder; cut the span out",
)
REPEATED_FRAMES = CheckCode(
    code="A035",
    name="repeated-frames",
    meaning="frames are shown again for less than half a second while the robot or the scene moves",
    size_unit="s",
    strength=0.2,
    strength_unit="s during motion",
    remedy="check the rate of the camera and the load of the recorder",
)
DROPPED_FRAMES = CheckCode(
    code="A036",
    name="dropped-frames",
    meaning="frames are missing: the picture jumps ahead, or the stamps of the frames have a gap",
    size_unit="s",
    strength=0.3,
    strength_unit="s missing during motion, stamps numbered through",
    remedy="split the episode there; check the load of the recorder",
)
COLOUR_ORDER = CheckCode(
    code="A037",
    name="colour-order",
    meaning="red and blue are swapped against the other episodes of the camera",
    size_unit="times nearer when swapped",
    strength=1,
    strength_unit="camera of one episode with red and blue swapped",
    remedy="swap the channels back; check the colour order of the recorder (OpenCV has BGR)",
)
SWAPPED_CAMERAS = CheckCode(
    code="A038",
    name="swapped-cameras",
    meaning="a camera shows what another camera shows in the other episodes",
    size_unit="times nearer to the other camera",
    strength=1,
    strength_unit="pair of cameras of one episode exchanged",
    remedy="rename the cameras of the episode; bind cameras to ports or serial numbers",
)
COMPRESSION_DAMAGE = CheckCode(
    code="A039",
    name="compression-damage",
    meaning="the video cannot be decoded in places, or shows blocks",
    size_unit="s",
    strength=0.05,
    strength_unit="of the bytes of 0.5 s replaced, or blocks of 8 pixels with one colour each for 0.5 s",
    remedy="copy the file again from its origin; cut the span out",
    severity="fault",
)
VIDEO_LENGTH = CheckCode(
    code="A040",
    name="video-length",
    meaning="the video is shorter or longer than the signals",
    size_unit="s",
    strength=0.5,
    strength_unit="s",
    remedy="check when the recorder starts and stops each stream; trim the longer one",
    severity="fault",
)
VIDEO_LAG = CheckCode(
    code="A041",
    name="video-lag",
    meaning="the video shows the motion of the robot earlier or later than its state says",
    size_unit="s",
    strength=0.2,
    strength_unit="s",
    remedy="shift the video by the lag; stamp frames when they are taken",
)
CAMERA_LAG = CheckCode(
    code="A042",
    name="camera-lag",
    meaning="one camera shows the motion earlier or later than another",
    size_unit="s",
    strength=0.2,
    strength_unit="s",
    remedy="shift the camera by the lag; synchronise the cameras",
)
VIDEO_RATE = CheckCode(
    code="A043",
    name="video-rate",
    meaning="the video runs faster or slower than its stamps say: its lag grows over the episode",
    size_unit="share of the rate",
    strength=0.1,
    strength_unit="of the rate",
    remedy="give the true rate of the camera; stamp frames when they are taken",
)
CAMERA_RATE = CheckCode(
    code="A044",
    name="camera-rate",
    meaning="the camera delivers fewer pictures than the video has frames: every second or third frame is a repeat",
    size_unit="share of frames",
    strength=0.5,
    strength_unit="of the frames repeated",
    remedy="record at the rate of the camera; check its exposure time and its connection",
)

VIDEO_CODES = (
    BLUR, OVEREXPOSED, UNDEREXPOSED, BLACK, FROZEN, REPEATED_FRAMES, DROPPED_FRAMES, COLOUR_ORDER, SWAPPED_CAMERAS,
    COMPRESSION_DAMAGE, VIDEO_LENGTH, VIDEO_LAG, CAMERA_LAG, VIDEO_RATE, CAMERA_RATE,
)  # fmt: skip
