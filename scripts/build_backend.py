"""hatchling behind a check of the Python version: older versions of pip name a library that lacks a release instead."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - pip asks this before it looks at requires-python
    version = ".".join(map(str, sys.version_info[:3]))
    sys.exit(f"ARES needs Python 3.11 to 3.14, and this is {version}; `make demo` fetches one")

from hatchling.build import *  # noqa: F403
