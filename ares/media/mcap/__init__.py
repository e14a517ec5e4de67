"""MCAP recordings and ROS bags: containers, image topics, frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.media.mcap.container import (
        McapMessage,
        MessageDecoders,
        decode_message,
        header_time,
        message_times,
        publish_time,
        read_metadata,
        require_fields,
    )
    from ares.media.mcap.frames import first_image_at, image_seconds, read_all_topic_frames, read_topic_frames
    from ares.media.mcap.index import ImageCollector, TopicImages
    from ares.media.mcap.messages import image_kind, image_message_info, message_type, required_fields
    from ares.media.mcap.recording import scan_messages
    from ares.media.mcap.remux import copy_topic_packets

__all__ = [
    "ImageCollector",
    "McapMessage",
    "MessageDecoders",
    "TopicImages",
    "copy_topic_packets",
    "decode_message",
    "first_image_at",
    "header_time",
    "image_kind",
    "image_message_info",
    "image_seconds",
    "message_times",
    "message_type",
    "publish_time",
    "read_all_topic_frames",
    "read_metadata",
    "read_topic_frames",
    "require_fields",
    "required_fields",
    "scan_messages",
]

__getattr__ = lazy_exports(__name__)
