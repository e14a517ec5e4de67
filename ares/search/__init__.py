"""Search for moments by text, image or episode, and counts of column values under a filter."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.search.encoding import (
        SPACES_COLLECTION as SPACES_COLLECTION,
        TEXT_ENCODER_FOLDER as TEXT_ENCODER_FOLDER,
        Encoder as Encoder,
        choose_space as choose_space,
        embed_texts as embed_texts,
        is_text_encoder_usable as is_text_encoder_usable,
        list_spaces as list_spaces,
        load_encoder as load_encoder,
        load_model as load_model,
        prepare_text_search as prepare_text_search,
    )
    from ares.search.engine import (
        Ranking as Ranking,
        describe_ranked as describe_ranked,
        fuse as fuse,
        list_episodes as list_episodes,
        run_concurrently as run_concurrently,
    )
    from ares.search.facets import (
        NUMERIC_TYPES as NUMERIC_TYPES,
        Facet as Facet,
        compute_facets as compute_facets,
    )
    from ares.search.query import Hit as Hit, MinScore as MinScore, Query as Query
    from ares.search.rankers.motion import (
        SIGNAL_KINDS as SIGNAL_KINDS,
        SPACE_PREFIX as SPACE_PREFIX,
        FeatureScale as FeatureScale,
        SignalKind as SignalKind,
        SignalLayout as SignalLayout,
        compute_features as compute_features,
        find_layout as find_layout,
        fit_scale as fit_scale,
        motion_vector as motion_vector,
        read_scale as read_scale,
        space_name as space_name,
    )
    from ares.search.rankers.text import rank_by_text as rank_by_text
    from ares.search.relevance import (
        SCORE_BINS as SCORE_BINS,
        EpisodeScores as EpisodeScores,
        score_episodes as score_episodes,
        search as search,
    )

__getattr__ = lazy_exports(__name__)
