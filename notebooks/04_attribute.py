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
# # Which steps have to change?
#
# `attribute` takes a failed run and a good one, and finds by itself which of the differences matter. Here a
# travel assistant booked the wrong day in the wrong currency: two mistakes, neither of which repairs the run
# alone. The model is simulated; nothing here needs a key or a network.

# %%
import tempfile

import afnb
from afnb.experiments.demo import bundled

trip = bundled("trip")
bad, good = trip.bad, trip.good
d = afnb.diff(bad, good)
d

# %%
ax = afnb.plot.alignment(d)

# %% [markdown]
# The runs part at step 2, and everything after it differs too. Six steps, and a diff cannot say which of them
# only inherit.
#
# ## First the price

# %%
afnb.plan(bad, good, patch_rate=1.0, control_rate=0.0)

# %% [markdown]
# ## Find them
#
# All differences grafted at once must recover the run, otherwise there is no cause among them. Then delta
# debugging looks for a minimal set, cheaply. What it finds is only a suspicion: each step of it is **confirmed**
# on replays that the search has never seen, with the other changes in place in *both* arms.
#
# A `ledger` keeps every finished replay.

# %%
ledger = tempfile.mkdtemp()
settings = dict(
    agent=trip.agent,  # for your own: afnb.Command(["python", "agent.py"], base_url_env="OPENAI_BASE_URL")
    upstream=trip.upstream(),  # for your own: "https://api.openai.com"
    oracle=trip.oracle,  # what counts as recovered
    allow_tools=trip.tools,
    n_jobs=4,
    seed=1,
    progress=False,
)
a = afnb.attribute(bad, good, ledger=ledger, **settings)
a

# %% [markdown]
# The way there, an experiment a row. What the search says is never labelled `verified`, whatever it found;
# the two confirmations share the error of 5 % between them.

# %%
columns = ["purpose", "interventions", "verdict", "label", "replays_used"]
a.experiments.to_pandas()[columns]

# %%
ax = afnb.plot.replays(a)

# %% [markdown]
# ## Stopped halfway?
#
# The same call with the same ledger takes what is finished from there and asks the provider for nothing twice.
# A changed agent, recording or setting takes nothing: it would be another question.

# %%
again = afnb.attribute(bad, good, ledger=ledger, **settings)
again.origination, again.replays_reused, again.replays_spent

# %% [markdown]
# ## A repair, or an origin?
#
# Grafting the last answer repairs any run, so a repair proves no origin. `origin=True` asks besides: does the
# run recover less often *because* this answer was recorded, than if the model is asked for it again? In the
# refund run it does. The model mostly gets that lookup right.

# %%
refund = bundled("refund")
settings |= dict(
    agent=refund.agent, upstream=refund.upstream(), oracle=refund.oracle, allow_tools=refund.tools
)
origin = afnb.attribute(refund.bad, refund.good, origin=True, **settings)
origin

# %% [markdown]
# ## When nothing there matters
#
# The third pair parts at its first search: an official count here, newspaper stories there. The failed run ended
# with a wrong number, and a diff points at the search. All differences grafted at once make no such difference,
# so the search for a smaller set is never begun.

# %%
report = bundled("report")
settings |= dict(
    agent=report.agent, upstream=report.upstream(), oracle=report.oracle, allow_tools=report.tools
)
afnb.attribute(report.bad, report.good, **settings)

# %% [markdown]
# How often such verdicts are wrong, and how often a vote without a control arm is, was measured on planted
# agents: `docs/planted.md`.
#
# On the command line:
#
# ```bash
# afnb attribute bad.json --against good.json --success 'regex:13 October, charged in CHF' --origin \
#     --ledger runs/trip --upstream https://api.anthropic.com --allow-tools book_trip,find_flights -- python agent.py
# ```
#
# Many pairs at once: `afnb.attribute_many`, `afnb batch`. No good run at hand: [05_locate](05_locate.ipynb).
