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
# # Where do two runs part?
#
# A diff of two agent runs starts nothing and costs nothing: it aligns what was recorded. This notebook reads
# one pair step by step, then sixty failing runs at once. What a diff can **not** say is why a run failed; the
# last cell shows how that is found out.
#
# The recordings come with afnb, and their model is **simulated**: a seeded few lines of Python.

# %%
import afnb
from afnb.experiments.demo import bundled

refund = bundled("refund")
d = afnb.diff(refund.bad, refund.good)
d

# %% [markdown]
# Each row of the card is a *move*: a step of the failing run beside one of the good run, or a step that only
# one of them has. A retry that was absorbed and a sentence in other words count as nearly alike. The **fork**
# is the first place from which the failing run does not find back.

# %%
import pandas as pd

moves = pd.DataFrame(d.move_rows()).convert_dtypes()
moves

# %% [markdown]
# ## The difference itself
#
# For every pair that was aligned, the fields that differ, with both values. Move 4 is the fork: the failing run
# took a headset for an accessory.

# %%
fields = pd.DataFrame(d.field_diff_rows())
fields

# %% [markdown]
# The same as a picture. The path runs down the diagonal where the runs agree, and leaves it at the fork.

# %%
ax = afnb.plot.alignment(d)

# %% [markdown]
# ## When two runs have nothing to do with each other
#
# Two runs of different tasks can be laid side by side, but no fork of theirs would mean anything. That is a
# value with its reason, and no exception in the middle of a batch.

# %%
trip = bundled("trip")
strangers = afnb.diff(refund.bad, trip.good)
strangers

# %% [markdown]
# ## Sixty failing runs
#
# One fork is an anecdote. Here three agents run until twenty runs of each have failed; each is recorded and
# compared with a good one. With your own, this is `[afnb.diff(path, good) for path in paths]`.

# %%
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
diffs, agents = [], []
for name, wrong in {"refund": "Declined", "trip": "14 October", "report": "3.9 million"}.items():
    pair = bundled(name)
    for seed in range(1000):
        done = afnb.record(pair.agent, pair.upstream(seed=seed), folder / f"{name}-{seed}.json", seed=seed)
        if wrong in done.agent.value:
            diffs.append(afnb.diff(done.cassette, pair.good))
            agents.append(name)
        if agents.count(name) == 20:
            break
    print(f"{name}: {seed + 1} runs, {agents.count(name)} of them failed")

# %%
ax = afnb.plot.divergence(diffs, by=agents)

# %% [markdown]
# Which tool was called where they part? Did the failing runs take more tokens, or fewer?

# %%
ax = afnb.plot.divergence(diffs, along="step", by="tool")

# %%
ax = afnb.plot.deltas(diffs)

# %% [markdown]
# ## What a diff does not say
#
# A fork is where runs *part*. Whether changing that step would have saved the run is another question, and the
# answer is often no. `afnb.attribute(bad, good, agent=..., upstream=...)` finds out by running the agent again
# beside a control arm; `00_start` shows it in five minutes, `04_attribute` at leisure.
