"""HDF5 files of robomimic, LIBERO, Isaac Lab, ALOHA and DROID as episodes."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_ingest.hdf5.source import hdf5 as hdf5

__getattr__ = lazy_exports(__name__)
