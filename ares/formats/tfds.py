"""Files of a TFDS dataset folder, for reading and writing."""

from __future__ import annotations

FEATURES_FILE = "features.json"
DATASET_INFO_FILE = "dataset_info.json"
# What ARES adds to a dataset that it writes: its rate, and the names of dimensions and cameras.
DATASET_METADATA_FILE = "metadata.json"
# Names of the shards of a dataset.
SHARD_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
