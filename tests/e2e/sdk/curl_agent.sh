#!/bin/sh
# Any language: a shell script with curl. It asks twice; the second question holds the first answer.
set -eu
ask() {
    curl -sS --fail-with-body "$OPENAI_BASE_URL/chat/completions" ${CURL_OPTIONS:-} \
        -H 'content-type: application/json' -H "authorization: Bearer $OPENAI_API_KEY" -d "$1"
}
said() { sed -n 's/.*"content":"\([^"]*\)".*/\1/p'; }
first=$(ask '{"model": "gpt-test", "messages": [{"role": "user", "content": "Oslo: 4 C. What do I pack?"}]}' | said)
ask "{\"model\": \"gpt-test\", \"messages\": [{\"role\": \"user\", \"content\": \"$first And Rome: 21 C?\"}]}" | said
