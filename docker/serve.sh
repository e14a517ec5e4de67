#!/bin/sh
# Serves the workspace, an empty one when there is none yet.
set -eu
python -c 'import ares; ares.open(create=True)'
exec ares app --host 0.0.0.0 --no-browser
