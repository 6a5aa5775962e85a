"""Columns of the tables ``locations``, ``curve``, ``plans`` and ``ledger``."""

from __future__ import annotations

from afnb.tables.declare import column as _c

LOCATION = (
    _c("location", "text!", "name of the search"),
    _c("recording", "text!", "id of the failing recording"),
    _c("recording_hash", "text!", "its digest"),
    _c("mode", "cat!", "bisect or curve"),
    _c("verdict", "cat!", "recovered (serving the answer lowers the rate), not_recovered or unverified"),
    _c("label", "cat!", "verified or Unverified"),
    _c("kind", "cat!", "drop, small_drop, no_drop, nothing_to_locate, not_failing or unverified"),
    _c("decisive_step", "int", "step whose recorded answer is the likeliest drop"),
    _c("credible_low", "int", "95 % credible interval of that step under the model of one drop"),
    _c("credible_high", "int", "its other end"),
    _c("probability", "float!", "of the likeliest drop, under the model"),
    _c("no_drop", "float!", "probability that the rate drops nowhere, under the model"),
    _c("answers", "int!", "recorded answers that can be served"),
    _c("reason", "text!", "why it ended so"),
    _c("alpha", "float!", "error bound of the confirmation"),
    _c("oracle", "text!", "how a replay is judged"),
    _c("search_replays", "int!", "replays that the search consumed"),
    _c("replays_used", "int!", "those and the confirmation's"),
    _c("live_calls_used", "int!", "live calls of these"),
    _c("replays_spent", "int!", "replays started", volatile=True),
    _c("live_calls_spent", "int!", "live calls made", volatile=True),
    _c("tokens_spent", "int!", "tokens of all live calls made", "tokens", volatile=True),
    _c("dollars_spent", "float!", "cost of all live calls made", "USD", volatile=True),
    _c("replays_reused", "int!", "replays that a ledger had already", volatile=True),
    _c("wall_s", "float!", "wall time", "s", volatile=True),
)

CURVE = (
    _c("location", "text!", "name of the search"),
    _c("served", "int!", "recorded answers that the tape served, from the first on"),
    _c("step", "int!", "step of the last one of them; -1 where everything was live"),
    _c("name", "cat", "role or tool of that step"),
    _c("exchange", "int", "exchange that holds it"),
    _c("seq", "u64", "event-log position of its intent"),
    _c("recovered", "int!", "replays that recovered"),
    _c("total", "int!", "conclusive replays"),
    _c("lost", "int!", "inconclusive replays"),
    _c("rate", "float", "recovered share q(k); null without a conclusive replay"),
    _c("low", "float", "Wilson's 95 % interval of the rate"),
    _c("high", "float", "its other end"),
    _c("drop", "float", "probability that the rate drops at this step, under the model of one drop"),
)

PLAN = (
    _c("plan", "text!", "what is planned"),
    _c("scene", "cat!", "assumed, no effect, or most (what no run of the rule exceeds)"),
    _c("assumption", "text!", "the recovery rates that are assumed"),
    _c("replays", "int!", "replays in the median, or at most"),
    _c("replays_95", "int", "replays that 95 % of rehearsals do not exceed"),
    _c("live_calls", "int!", "live calls of these, with tails as long as the recorded one"),
    _c("input_tokens", "int!", "tokens that they read", "tokens"),
    _c("output_tokens", "int!", "tokens that they write", "tokens"),
    _c("dollars", "float", "their cost; null without prices", "USD"),
    _c("decided", "float", "share of the rehearsals that end with a verdict"),
)

LEDGER = (
    _c("recording_hash", "cat!", "digest of the recording"),
    _c("arm_hash", "text!", "digest of what the arm serves and changes"),
    _c("agent_hash", "cat!", "digest of the agent"),
    _c("settings_hash", "cat!", "digest of oracle, upstream, allowed tools, time-out and matching"),
    _c("stage", "cat!", "part of the attribution or search"),
    _c("arm", "cat!", "patch, control or probe"),
    _c("index", "int!", "replay number within its arm"),
    _c("seed", "u64!", "seed of the replay"),
    _c("recovery", "cat!", "recovered, not_recovered or inconclusive"),
    _c("reason", "cat", "why it is inconclusive"),
    _c("lost", "cat", "before or after the first intervened answer"),
    _c("detail", "text", "the oracle's or the fault's own sentence"),
    _c("served", "int!", "requests answered from the tape"),
    _c("live", "int!", "requests answered by the provider"),
    _c("input_tokens", "int!", "tokens read by the live calls", "tokens"),
    _c("output_tokens", "int!", "tokens written by the live calls", "tokens"),
    _c("answer", "json", "the run's answer"),
    _c("kept", "text", "file of the replay's own recording, in the folder recordings"),
    _c("finished_at", "text!", "when it ended, RFC 3339", volatile=True),
    _c("wall_s", "float!", "wall time", "s", volatile=True),
)
