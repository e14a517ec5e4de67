"""Asks the dashboard in this container for a sign of life, with its password if any; fails when there is none."""

import base64
import os
import urllib.request

password = os.environ["ARES_APP_PASSWORD"]
login = base64.b64encode(f"health:{password}".encode()).decode()
# Where people log in by an identity provider, only the second says anything to a program.
path = "api/health" if password else "_stcore/health"
asked = urllib.request.Request(f"http://127.0.0.1:8501/{path}", headers={"Authorization": f"Basic {login}"})
with urllib.request.urlopen(asked, timeout=4) as answer:
    answer.read()
