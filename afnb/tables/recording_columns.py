"""Columns of the tables of a recording: its exchanges, and a replay's requests that are not on it."""

from __future__ import annotations

from afnb.tables.declare import column as _c

EXCHANGE = (
    _c("cassette", "text!", "cassette id"),
    _c("exchange", "int!", "index in the cassette"),
    _c("upstream", "text", "provider, where there are several"),
    _c("method", "text!", "HTTP method"),
    _c("path", "text!", "path and query, origin left out, credentials masked"),
    _c("status", "int!", "HTTP status"),
    _c("result", "cat!", "answer (of a model), provider_error (whatever the status), http_error, other"),
    _c("error", "text", "the provider's own words for what went wrong"),
    _c("attempt_of", "int", "exchange that answered the same request in the end, for one that failed"),
    _c("provider", "cat", "provider whose wire shape the request has"),
    _c("source", "text", "in a replay's own recording: tape:N, patch:N or good:N (exchange served), or live"),
    _c("delay", "text", "retry-after as recorded, which a replay does not wait for"),
    _c("request_bytes", "int!", "size of the request body", "bytes"),
    _c("response_bytes", "int!", "size of the response body", "bytes"),
    _c("streamed", "bool!", "the answer came in chunks"),
    _c("incomplete", "bool!", "the answer stopped before its end, at the connection or by its own account"),
    _c("notes", "json!", "what is odd about the answer: incomplete, no_end_marker, text_differs, ..."),
    _c("t_start", "text", "start, RFC 3339"),
    _c("t_end", "text", "end, RFC 3339"),
    _c("request_body", "bytes!", "request body, byte for byte"),
    _c("response_body", "bytes!", "response body, byte for byte"),
)

MISS = (
    _c("recording", "text!", "recording that was replayed"),
    _c("request", "int!", "which request of the replay, in order of asking, from 0"),
    _c("method", "text!", "HTTP method; TOOL for a call of a wrapped tool"),
    _c("path", "text!", "path and query, credentials masked; the name of a wrapped tool"),
    _c("key", "text", "key of the request, beginning of its digest"),
    _c("nearest", "int", "recorded exchange (or tool exchange) whose request is nearest"),
    _c("nearest_key", "text", "key of that one"),
    _c("where", "text", "JSON path of the first difference, or (method), (path), (body)"),
    _c("offset", "int", "character of the text there at which the two differ", "characters"),
    _c("recorded", "text", "recorded text there, 40 characters either side of the difference"),
    _c("asked", "text", "asked text there, likewise"),
    _c("reason", "text!", "the same in one sentence"),
    _c("suggestions", "json!", "ready-made matching patterns that would forgive the difference"),
)
