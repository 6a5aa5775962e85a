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
# # A night of failing runs, one page in the morning
#
# One failing run is a puzzle; two hundred are a queue. `attribute_many` works through them unattended: it loads
# and compares all of them first, which costs nothing, then re-runs what can be re-run, the cheapest first, under
# one budget and one error rate. Whatever goes wrong with one of them is a row with its reason.
#
# Three agents come with afnb: a support desk, a travel desk and a research desk. Their model is **simulated** (a
# seeded few lines of Python), so nothing here needs a key or a network; the agents and their HTTP requests are
# real.
#
# ## The night
#
# Each desk does its task a few times, recorded, and we keep what came of it.

# %%
import tempfile
from pathlib import Path

import afnb
from afnb.experiments.demo import bundled

well = {"refund": "Refund of $129.00", "trip": "13 October, charged in CHF", "report": "4.2 million"}
night = Path(tempfile.mkdtemp(prefix="afnb-night-"))
desks = {name: bundled(name) for name in ("refund", "trip", "report")}
runs = []
for name, desk in desks.items():
    for number in range(16):
        path = night / f"{name}-{number}.json"
        said = str(afnb.record(desk.agent, desk.upstream(seed=number), path).agent.value)
        runs.append((name, path, well[name] in said))

{name: f"{sum(ok for n, _, ok in runs if n == name)} of 16 went well" for name in desks}

# %% [markdown]
# ## The pairs
#
# A batch is a list of pairs: a failing run and one or several good runs of the same task. It may as well be a
# folder (`<name>/bad.json` beside `<name>/good.json`), a CSV or Parquet file, or a table. Every further column
# is a label. Here each desk has its own agent, provider and idea of success; with one agent for all, these are
# arguments of `attribute_many`.
#
# A night would take all failures; a notebook takes the first three of each desk, and one whose file is lost.

# %%
pairs = []
for name, desk in desks.items():
    failed = [path for n, path, ok in runs if n == name and not ok][:3]
    for path in failed:
        pairs.append(
            {
                "name": path.stem,
                "bad": path,
                "good": desk.good,
                "task": name,
                "agent": desk.agent,
                "upstream": desk.upstream(seed=99),
                "oracle": desk.oracle,
            }
        )
pairs.append({**pairs[0], "name": "refund-lost", "bad": night / "refund-lost.json"})
len(pairs)

# %% [markdown]
# ## Unattended
#
# `ledger` names a folder that keeps everything. Kill the process at any moment and run the same cell again: no
# finished live call is repeated, and the tables come out the same.

# %%
batch = afnb.attribute_many(
    pairs,
    agent=None,  # each pair brings its own
    allow_tools=[tool for desk in desks.values() for tool in desk.tools],  # pure functions, safe to run again
    ledger=night / "batch",
    n_jobs=4,
    budget=afnb.Budget(live_calls=4000),
    seed=1,
    progress=False,
)
batch

# %% [markdown]
# Every pair is a row. A failing run has a *repair* if changing a step's answer was shown to recover it, on fresh
# replays and against a control arm; *no cause* if changing all candidates was shown to make no such difference;
# everything else says why there is no verdict.

# %%
columns = ["pair", "state", "origination", "deed", "reason", "live_calls_spent"]
batch.pairs.to_pandas()[columns]

# %% [markdown]
# ## Where runs part is not why they fail
#
# Both can be drawn from the same tables: where each run leaves its good run's way, and at which steps a repair
# was verified.

# %%
ax = afnb.plot.divergence(batch.pairs, by="task")

# %% [markdown]
# ## One card a pair
#
# With the diff, both arms, the evidence and the code that runs the pair again by itself.

# %%
batch.card(next(row["pair"] for row in batch.rows() if row["state"] == "repair"))

# %% [markdown]
# ## The page in the morning
#
# One HTML file without anything from outside: it opens from a mail attachment, on paper and in the dark. The
# same parts are also Markdown and JSON.

# %%
report = batch.report(night / "night.html")
summary = batch.report(night / "night.md")
print(Path(summary).read_text()[:900])

# %% [markdown]
# ## The same from a shell, with gates for a build
#
# ```bash
# afnb batch pairs.csv --out runs/nightly --upstream https://api.openai.com --success "regex:Refund .* issued" \
#     --gate "verified>=50%" --gate "error<=0" -- python agent.py --task {task}
# afnb report runs/nightly --out nightly.html
# ```
#
# The exit status is 0 if every pair has a verdict or the gates passed, 1 if a gate failed, 2 for trouble, 3 if
# the budget was spent first.

# %%
afnb.read_batch(night / "batch").tally.states

# %%
import shutil

shutil.rmtree(night)
