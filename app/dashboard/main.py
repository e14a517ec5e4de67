"""Entry script of the dashboard: page settings and the navigation around every page."""

from pathlib import Path

import streamlit as st

from app.dashboard.pages import build_pages, draw_log_out_link

# A named icon would be fetched from the internet; this file is not.
st.set_page_config(page_title="ARES", page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide")
st.html("<style>.stMainBlockContainer { padding-top: 4.2rem; padding-bottom: 2rem; }</style>")
draw_log_out_link()
st.navigation(list(build_pages().values()), position="top").run()
