"""Entry script of the dashboard: the frame around every page."""

import streamlit as st

from app.dashboard.pages import pages

st.set_page_config(page_title="ARES", page_icon=":material/precision_manufacturing:", layout="wide")
st.html("<style>.stMainBlockContainer { padding-top: 4.2rem; padding-bottom: 2rem; }</style>")
st.navigation(list(pages().values()), position="top").run()
