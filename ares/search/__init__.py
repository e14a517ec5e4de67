"""Search for moments by text, image or episode, and counts of column values under a filter."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.search.content_copies import leave_out_copies as leave_out_copies
    from ares.search.encoded_columns import NUMERIC_TYPES as NUMERIC_TYPES
    from ares.search.encoding import (
        TEXT_ENCODER_FOLDER as TEXT_ENCODER_FOLDER,
        Encoder as Encoder,
        embed_texts as embed_texts,
        load_encoder as load_encoder,
        load_encoder_model as load_encoder_model,
        prepare_text_search as prepare_text_search,
    )
    from ares.search.engine import (
        EncodedQuery as EncodedQuery,
        Hit as Hit,
        Ranking as Ranking,
        find_best_moments_of as find_best_moments_of,
        fuse_rankings as fuse_rankings,
        list_episodes as list_episodes,
        run_concurrently as run_concurrently,
    )
    from ares.search.facets import (
        IDENTITY_COLUMNS as IDENTITY_COLUMNS,
        Facet as Facet,
        compute_facets as compute_facets,
    )
    from ares.search.motion_vectors import (
        FeatureScale as FeatureScale,
        compute_motion_vector as compute_motion_vector,
        fit_feature_scale as fit_feature_scale,
        read_feature_scale as read_feature_scale,
    )
    from ares.search.query import MinScore as MinScore, Query as Query
    from ares.search.rankers.motion import (
        SIGNAL_KINDS as SIGNAL_KINDS,
        SPACE_PREFIX as SPACE_PREFIX,
        SignalKind as SignalKind,
        SignalLayout as SignalLayout,
        compute_motion_features as compute_motion_features,
        find_signal_layout as find_signal_layout,
        name_motion_space as name_motion_space,
    )
    from ares.search.rankers.text import rank_by_text as rank_by_text
    from ares.search.relevance import (
        SCORE_BINS as SCORE_BINS,
        EpisodeScores as EpisodeScores,
        score_episodes as score_episodes,
        search as search,
    )
    from ares.search.spaces import (
        SPACES_COLLECTION as SPACES_COLLECTION,
        find_embedding_space as find_embedding_space,
        list_embedding_spaces as list_embedding_spaces,
    )

__getattr__ = lazy_exports(__name__)
