"""Search for moments by text, image or episode, and counts of column values under a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.search.answer import search
    from ares.search.embedding_spaces import (
        SPACES_COLLECTION,
        choose_space,
        list_spaces,
        load_encoder,
        load_model,
    )
    from ares.search.engine import describe_ranked, list_episodes
    from ares.search.fusion import Ranking, fuse, run_concurrently
    from ares.search.motion_features import (
        SIGNAL_KINDS,
        SPACE_PREFIX,
        FeatureScale,
        SignalKind,
        SignalLayout,
        compute_features,
        find_layout,
        fit_scale,
        motion_vector,
        read_scale,
        space_name,
    )
    from ares.search.query import AUTO, Hit, MinScore, Query
    from ares.search.text_encoding import (
        TEXT_ENCODER_FOLDER,
        embed_texts,
        is_text_encoder_usable,
        prepare_text_search,
    )

__all__ = [
    "AUTO",
    "SIGNAL_KINDS",
    "SPACES_COLLECTION",
    "SPACE_PREFIX",
    "TEXT_ENCODER_FOLDER",
    "FeatureScale",
    "Hit",
    "MinScore",
    "Query",
    "Ranking",
    "SignalKind",
    "SignalLayout",
    "choose_space",
    "compute_features",
    "describe_ranked",
    "embed_texts",
    "find_layout",
    "fit_scale",
    "fuse",
    "is_text_encoder_usable",
    "list_episodes",
    "list_spaces",
    "load_encoder",
    "load_model",
    "motion_vector",
    "prepare_text_search",
    "read_scale",
    "run_concurrently",
    "search",
    "space_name",
]

__getattr__ = lazy_exports(__name__)
