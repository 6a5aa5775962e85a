#!/bin/sh
# The smoke on the newest releases, whatever requirements.lock says. It reports and gates nothing; exit status: pytest's.
set -eu
cd "$(dirname "$0")/../../.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place"
sed 's/,<[0-9.]*//' tests/e2e/sdk/requirements.in > "$place/newest.in"
"$place/bin/pip" install -q --upgrade -r "$place/newest.in" -e '.[test]'
"$place/bin/pip" list --format freeze | grep -iE '^(openai|anthropic|google-genai|mistralai|litellm|lang|pydantic-ai|smolagents|httpx)'
AFNB_ALL_SDKS=1 "$place/bin/pytest" -n 2 -m "sdk and not soak" tests/e2e
