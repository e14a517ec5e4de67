"""Entry script of the dashboard: page settings and the navigation around every page."""

from pathlib import Path

import streamlit as st

from ares.curation import complete_interrupted
from ares_app.dashboard.cached_reads import page_limits, workspace
from ares_app.dashboard.navigation import accept_next_message, build_pages, draw_header, switch_page
from ares_app.dashboard.selection_bar import keep_ticks

# A named icon would be fetched from the internet; this file is not.
st.set_page_config(page_title="ARES", page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide")
accept_next_message()
_STYLE = """<style>
.st-key-tab_state { display: none; }
/* Streamlit's box about a lost connection: the header says it in one line. A dialog of a page has blocks. */
div:has(> [data-testid="stDialog"]):not(:has([data-testid="stVerticalBlock"])) { display: none; }
.st-key-browse-search_input, [data-testid=stLayoutWrapper]:has(> .st-key-tab_state) { position: absolute; }
.st-key-browse-line { min-height: 2.4rem; }
/* Their buttons are fixed in the header. */
.st-key-changes { position: absolute; height: 0; }
.st-key-find { position: fixed; top: 0.85rem; right: 3.6rem; z-index: 999993; width: auto; }
/* What is being renewed looks so at once: Streamlit waits for half a second, then fades for a second. */
[data-stale="true"] { opacity: 0.4 !important; transition: opacity 0.1s ease-in 0.1s !important; }
/* The blue of a chosen part on its own tint is too faint to read. */
[data-testid="stButtonGroup"] p { color: #0f172a; }
@media (prefers-color-scheme: dark) { [data-testid="stButtonGroup"] p { color: #e2e8f0; } }
.stMainBlockContainer { padding: 4.2rem 1.5rem 2rem; }
.stMainBlockContainer > .stVerticalBlock { gap: 0.6rem; }
[data-testid="stMetricValue"] { font-size: 1.6rem; }
/* No link to each title, and none to what stands in the table beside the bars. */
[data-testid="stHeaderActionElements"] { display: none; }
.st-key-quality-outcomes [data-testid="stElementToolbar"] { display: none; }
[data-testid="stHtml"] code { font-size: 0.85rem; overflow-wrap: anywhere; }
/* The menu is at the same place on every page, with filters beside the page or without. */
@media (min-width: 768px) {
  [data-testid="stMain"] { scrollbar-gutter: stable; }
  [data-testid="stHeader"] { position: fixed; left: 0; right: 0; width: auto; z-index: 999992; }
  [data-testid="stSidebar"] { margin-top: 3.75rem; height: calc(100vh - 3.75rem) !important; }
  [data-testid="stSidebarHeader"] { height: 2rem; margin: 0; }
  [data-testid="stToolbar"] { padding-right: 11rem; } /* for what opens things by name */
  [data-testid="stToolbar"] div:has(> div > [data-testid="stExpandSidebarButton"]) { position: absolute; }
  [data-testid="stExpandSidebarButton"] { position: fixed; top: 4.2rem; left: 0.8rem; }
}
@media (min-width: 641px) {
  .st-key-episode_head { flex-wrap: nowrap !important; }
  .st-key-episode_head > div { min-width: 0; }
}
.st-key-browse-search [data-testid=stTextInput] { flex: 1 1 320px; }
@media (max-width: 640px) {
  .stMainBlockContainer { padding-left: 0.7rem; padding-right: 0.7rem; }
  .st-key-browse-filters { flex-wrap: nowrap !important; overflow-x: auto; }
  .st-key-browse-filters > * { flex: none !important; }
  .st-key-quality_tiles > * { flex: 1 1 40% !important; min-width: 0; }
  .st-key-review_bar .stHorizontalBlock { flex-wrap: nowrap; gap: 0.5rem; }
  .st-key-review_bar .stColumn { min-width: 0; }
  .st-key-review_bar .stColumn:last-child { display: none; }
}
</style>"""
# Streamlit takes the sidebar of the page before away when all of this one is drawn, which would then move.
_WITHOUT_SIDEBAR = "<style>[data-testid=stSidebar] { display: none; }</style>"
if page_limits().needs_login:
    # In the same tab, unlike links in Markdown.
    st.sidebar.html('<a href="/api/logout" target="_self">Log out</a>')
pages = build_pages()
current_page = st.navigation(list(pages.values()), position="top")
switch_page(pages)
st.html(_STYLE if page_limits().needs_login else _STYLE + _WITHOUT_SIDEBAR)
complete_interrupted(workspace().stores)
draw_header(current_page.title)
if current_page is not pages["browse"]:
    keep_ticks()  # Browse draws this with its cards: a tick draws nothing else
with st.container():
    if workspace().stores.lag_message:
        st.warning(workspace().stores.lag_message)
current_page.run()
