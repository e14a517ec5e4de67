"""The pages of the dashboard by name, and the parameters of the URL that each reads."""

from __future__ import annotations

from typing import NamedTuple


class PageEntry(NamedTuple):
    """A page of the dashboard; `render()` of the file of its name in `app/dashboard/views` draws it.

    Attributes:
        title: Its name in the navigation.
        icon: Its icon there, by Streamlit's name; pages without one are opened from others.
        parameters: Parameters of the URL that it reads, beside those of the filters of columns ("f.COLUMN").
    """

    title: str
    icon: str
    parameters: tuple[str, ...] = ()


VIEW_PARAMETERS = (
    *("q", "like", "image", "by", "words", "where", "region", "sort", "page", "cut"),
    *("show", "columns", "copies"),
)
PAGES = {
    "browse": PageEntry("Browse", ":material/grid_view:", VIEW_PARAMETERS),
    "map": PageEntry("Map", ":material/scatter_plot:", (*VIEW_PARAMETERS, "colour")),
    "quality": PageEntry("Quality", ":material/monitoring:", (*VIEW_PARAMETERS, "group", "number")),
    "episode": PageEntry("Episode", "", (*VIEW_PARAMETERS, "episode", "at", "t")),
    "compare": PageEntry("Compare", "", ("a", "b", "group", "maker_a", "maker_b", "t")),
    "review": PageEntry("Review", ":material/rate_review:", ("queue", "person")),
    "sets": PageEntry("Sets", ":material/inventory_2:", ("set",)),
    "jobs": PageEntry("Jobs", ":material/conveyor_belt:", ("job", "names", "failed")),
}
