"""The tf.train.Example in a record of TFDS, parsed and encoded without TensorFlow."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ares.errors import SourceError

if TYPE_CHECKING:
    from numpy.typing import NDArray
_MAX_EXAMPLE_BYTES = 2**31


# Values of a feature: encoded texts or images, or numbers.
ExampleValues: TypeAlias = "Sequence[bytes] | NDArray[Any]"


# The messages of tf.train.Example: name of the message, then its fields as (name, number, type, repeated).
_MESSAGES: dict[str, tuple[tuple[str, int, str, bool], ...]] = {
    "BytesList": (("value", 1, "bytes", True),),
    "FloatList": (("value", 1, "float", True),),
    "Int64List": (("value", 1, "int64", True),),
    "Feature": (
        ("bytes_list", 1, "BytesList", False),
        ("float_list", 2, "FloatList", False),
        ("int64_list", 3, "Int64List", False),
    ),
    "Features": (("feature", 1, "Features.FeatureEntry", True),),
    "Features.FeatureEntry": (("key", 1, "string", False), ("value", 2, "Feature", False)),
    "Example": (("features", 1, "Features", False),),
}


@functools.cache
def make_tf_example_class() -> Any:
    """Message class of tf.train.Example, built from its wire description.

    Importing it from tensorflow_datasets would take a second.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

    kind = descriptor_pb2.FieldDescriptorProto
    scalars = {
        "bytes": kind.TYPE_BYTES,
        "float": kind.TYPE_FLOAT,
        "int64": kind.TYPE_INT64,
        "string": kind.TYPE_STRING,
    }
    file = descriptor_pb2.FileDescriptorProto(name="ares_example.proto", package="ares", syntax="proto3")
    messages: dict[str, Any] = {}
    for name, fields in _MESSAGES.items():
        outer, _, inner = name.rpartition(".")
        messages[name] = (
            messages[outer].nested_type.add(name=inner) if outer else file.message_type.add(name=name)
        )
        for field, number, type_name, repeated in fields:
            type_number = scalars.get(type_name, kind.TYPE_MESSAGE)
            entry = messages[name].field.add(name=field, number=number, type=type_number)
            entry.label = kind.LABEL_REPEATED if repeated else kind.LABEL_OPTIONAL
            if type_name not in scalars:
                entry.type_name = f".ares.{type_name}"
    messages["Features.FeatureEntry"].options.map_entry = True
    messages["Feature"].oneof_decl.add(name="kind")
    for entry in messages["Feature"].field:
        entry.oneof_index = 0
    # The default pool lives as long as the process. Two threads may both fill the cache of this function; a pool
    # of the losing thread would be freed while messages of its class still exist.
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ares.Example"))


def parse_tf_example(payload: bytes, where: str) -> Mapping[str, Any]:
    """The features of a tf.train.Example by key, each with `.bytes_list`, `.float_list` or `.int64_list` `.value`.

    Raises SourceError naming `where` when the payload is not a tf.train.Example.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        features: Mapping[str, Any] = make_tf_example_class().FromString(payload).features.feature
    except DecodeError:
        raise SourceError("record is not a tf.train.Example", where) from None
    return features


def encode_example(values: Mapping[str, ExampleValues]) -> bytes:
    """A tf.train.Example as bytes. Two of them joined are one with the features of both.

    Args:
        values: By key, encoded texts or images, or an array of any shape: floats become float32, all others int64.

    Raises:
        SourceError: It would be larger than the 2 GB that a message may have.
    """
    import numpy as np

    example = make_tf_example_class()()
    for key, value in values.items():
        feature = example.features.feature[key]
        if not isinstance(value, np.ndarray):
            feature.bytes_list.value.extend(value)
        elif value.dtype.kind == "f":
            feature.float_list.value.extend(value.astype(np.float32).ravel().tolist())
        else:
            feature.int64_list.value.extend(value.astype(np.int64).ravel().tolist())
    if (size := example.ByteSize()) >= _MAX_EXAMPLE_BYTES:
        raise SourceError("the record would be larger than a message may be", f"{size} bytes, at most 2 GB")
    # Maps have no order: the same values are the same bytes in every process.
    encoded: bytes = example.SerializeToString(deterministic=True)
    return encoded


_CONTENT_HASH_KEY = "episode_metadata/ares_content_hash"
_RECORD_HASH_KEY = "episode_metadata/ares_record_hash"


def append_identity(payload: bytes, content_hash: str) -> bytes:
    """A record with the content hash (32 hex digits) of the episode that was exported into it."""
    return payload + _encode_identity(content_hash, _hash_payload(payload))


def read_identity_hash(payload: bytes) -> str:
    """The content hash that `append_identity` gave a record; "" where there is none, or other bytes stand before it."""
    size = len(_encode_identity(_hash_payload(b""), _hash_payload(b"")))
    record, tail = payload[:-size], payload[-size:]
    if _CONTENT_HASH_KEY.encode() not in tail:
        return ""
    try:
        (stated,) = parse_tf_example(tail, "")[_CONTENT_HASH_KEY].bytes_list.value
        content_hash = stated.decode()
    except (SourceError, KeyError, ValueError):
        return ""
    return content_hash if tail == _encode_identity(content_hash, _hash_payload(record)) else ""


def _encode_identity(content_hash: str, record_hash: str) -> bytes:
    return encode_example(
        {_CONTENT_HASH_KEY: [content_hash.encode()], _RECORD_HASH_KEY: [record_hash.encode()]}
    )


def _hash_payload(payload: bytes) -> str:
    return hashlib.blake2b(payload, digest_size=16).hexdigest()
