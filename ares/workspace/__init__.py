"""What users call in Python: a workspace with its episodes, sets and verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.workspace.dashboard import Dashboard, app_operation
    from ares.workspace.display import PlayableVideo
    from ares.workspace.episode_ids import IdFile
    from ares.workspace.episodes import Episodes
    from ares.workspace.opening import new_workspace, open_workspace
    from ares.workspace.operations import check_operation, fix_operation
    from ares.workspace.results import FacetList, FindingList, SearchResults
    from ares.workspace.set_collection import SetCollection, StoredSet
    from ares.workspace.stored_episode import StoredEpisode
    from ares.workspace.workspace import Workspace

__all__ = [
    "Dashboard",
    "Episodes",
    "FacetList",
    "FindingList",
    "IdFile",
    "PlayableVideo",
    "SearchResults",
    "SetCollection",
    "StoredEpisode",
    "StoredSet",
    "Workspace",
    "app_operation",
    "check_operation",
    "fix_operation",
    "new_workspace",
    "open_workspace",
]

__getattr__ = lazy_exports(__name__)
