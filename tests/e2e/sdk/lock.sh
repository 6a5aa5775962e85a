#!/bin/sh
# Pin the newest SDKs that requirements.in allows, with all that afnb and its tests need (uv must be installed).
set -eu
cd "$(dirname "$0")"
uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-header --no-annotate \
    ../../../pyproject.toml --extra test --extra sdk --extra vcr requirements.in --upgrade -o requirements.lock
