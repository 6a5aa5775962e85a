# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Fifty-two runs in two files: which of them can be trusted?
#
# An agent that keeps an **event log** writes one line for everything it does, before it does it: the question,
# each look at the clock, each call of a model or a tool, each answer. From such a log a run can be replayed
# and gone on with after a crash, *if* the log is whole. After a bad day (a full disk, two workers with one run,
# a copy that was cut off) some are not, and nobody sees it from outside.
#
# The logs here come with afnb. They are made up, with everything that happens to logs in earnest: lines lost,
# doubled and torn.

# %%
import tempfile
from pathlib import Path

import afnb
from afnb.core.cursor import ReplayCursor
from afnb.experiments.demo import data_dir

logs = data_dir() / "logs"
sorted(path.name for path in logs.iterdir())

# %% [markdown]
# ## All of them as one table
#
# `read_events` takes a file, a folder or a pattern (`logs/**/*.jsonl.gz`), any number of runs, interleaved or not.
# One row is one event. The payload is kept character for character: an integer of forty digits, `1.0` beside `1`,
# a nanosecond are what they were.

# %%
events = afnb.read_events(logs)
afnb.to_pandas(events)[["run_id", "seq", "recorded_at", "kind", "payload"]].head()

# %% [markdown]
# ## Which are broken, and where?
#
# `validate` checks every run at once. A run is reported at the **first** place at which its log breaks a rule,
# with file and line.

# %%
report = afnb.validate(events)
report

# %% [markdown]
# What could not be read at all is a table as well. The two kinds differ: a broken line *in the middle* is damage;
# an unfinished *last* line is what every log looks like while it is being written, and no error.

# %%
afnb.to_pandas(report.problems)[["line", "level", "rule", "message"]]

# %%
broken = afnb.to_pandas(report.violations)[["run_id", "index", "seq", "rule", "message", "line"]]
broken

# %% [markdown]
# For logs larger than memory, `afnb.validate_files("logs/")` says the same while holding a few megabytes of them,
# on all cores. From the command line: `afnb validate logs/`, whose exit status is 1 where a run is broken.

# %%
streamed = afnb.validate_files(logs)
streamed.violations.equals(report.violations)

# %% [markdown]
# ## What became of the others?
#
# `run_states` folds every log to the state it leaves its run in: where it stands, its tokens, the call that was
# asked and never answered.

# %%
states = afnb.to_pandas(afnb.run_states(events))
whole = states[~states["run_id"].isin(broken["run_id"])]
whole.groupby("status", observed=True)[["events", "model_calls", "input_tokens", "output_tokens"]].sum()

# %%
open_calls = whole[whole["pending_kind"].notna()]
open_calls[["run_id", "status", "pending_kind", "pending_tool", "pending_effect"]]

# %% [markdown]
# ## One run, event by event
#
# The last of these died between asking for a mail to be sent and hearing that it was. Was it sent? Nobody knows.
# Its tool says that it is *idempotent* (asked twice with one key, it acts once), so it may be asked again. Had it
# been a plain *write*, the replay would stop and ask a person.

# %%
log = afnb.event_log(events, run_id=open_calls["run_id"].iloc[-1])
log

# %% [markdown]
# ## Go on from where it stopped
#
# The **replay cursor** answers an agent from the log for as long as it asks what was recorded; from the first
# step that is not there, it is live. Here we ask by hand what the agent asked. The answers come from the log,
# and the call that was never answered comes back as one that has to be made, with its recorded key.

# %%
cursor = ReplayCursor(log.envelopes)
head, clock, model, tool = (log.envelopes[n].event for n in (0, 1, 2, 4))
print("begin ->", cursor.begin(head.agent_def_hash).value)
print("now   ->", cursor.now().value)
print("model ->", cursor.model_call(model.request_hash).value.response)
open_call = cursor.tool_call(tool.tool, tool.input, tool.effect, tool.idempotency_key)
print("tool  ->", type(open_call).__name__, "with key", open_call.permit.idempotency_key)

# %% [markdown]
# An agent that asks for something else is told so, with both sides, before anything is done:

# %%
cursor = ReplayCursor(log.envelopes)
try:
    cursor.begin("another agent")
except afnb.Divergence as difference:
    print(difference)

# %% [markdown]
# ## Keep it
#
# Parquet and Arrow hold the same table, and read back equal. What was wrong with the lines travels along.

# %%
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "logs.parquet"
    afnb.write_events(events, path)
    again, size = afnb.read_events(path), path.stat().st_size
sizes = {"JSON lines": sum(one.stat().st_size for one in logs.iterdir()), "Parquet": size}
again.equals(events), afnb.event_problems(again).equals(report.problems), sizes

# %% [markdown]
# Event logs are recordings like any other: `afnb.diff`, `what_if` and `attribute` take them as they take
# recordings of HTTP (see [03_what_if](03_what_if.ipynb)). All formats: [docs/formats.md](../docs/formats.md).
