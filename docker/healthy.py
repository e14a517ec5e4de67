"""Asks the dashboard in this container for a sign of life, with its own password; fails when there is none."""

import base64
import os
import urllib.request

login = base64.b64encode(f"health:{os.environ['ARES_APP_PASSWORD']}".encode()).decode()
asked = urllib.request.Request(
    "http://127.0.0.1:8501/api/health", headers={"Authorization": f"Basic {login}"}
)
with urllib.request.urlopen(asked, timeout=4) as answer:
    answer.read()
