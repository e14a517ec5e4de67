"""Export as RLDS: TFDS folders of TFRecord files."""
