#!/usr/bin/env bash
# Runs once, when the autograder is built: Python and this package.
set -eu
apt-get update
apt-get install -y python3 python3-venv bubblewrap
python3 -m venv /autograder/venv
/autograder/venv/bin/pip install /autograder/source
