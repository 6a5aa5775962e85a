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
# # Where was the run lost, if there is no good one to compare with?
#
# Let the recording answer through step k and everything after it go live, and see how often the run recovers:
# q(k). As long as the run can still be saved, that is the agent's usual rate. Once it is lost, it is low. The
# step where q falls is the decisive one, and no good run is needed to find it.

# %%
import afnb
from afnb.experiments.demo import bundled

refund = bundled("refund")
settings = dict(
    agent=refund.agent,  # for your own: afnb.Command(["python", "agent.py"], base_url_env="OPENAI_BASE_URL")
    upstream=refund.upstream(),  # for your own: "https://api.openai.com"
    oracle=refund.oracle,  # what counts as recovered
    allow_tools=refund.tools,
    n_jobs=4,
    seed=1,
    progress=False,
)
bad = refund.bad
afnb.plan(bad, what="locate")

# %% [markdown]
# ## A few replays, where they say most
#
# A noisy binary search keeps a probability for every step, asks where an answer would say most, and stops when
# one step stands out. That is a model's opinion. So the step is then **confirmed** on fresh replays: the tape
# through it against the tape just before it.

# %%
found = afnb.locate(bad, **settings)
found

# %%
ax = afnb.plot.recoverability(found)

# %% [markdown]
# The replays stand where the question was, not everywhere, and that is the saving.
#
# ## Or the whole curve
#
# `mode="curve"` measures every place alike. It costs several times as much, and shows more.

# %%
curve = afnb.locate(bad, mode="curve", replays=10, **settings)
ax = afnb.plot.recoverability(curve)

# %%
{
    "bisect": (found.decisive_step, found.replays_used, found.live_calls_used),
    "curve": (curve.decisive_step, curve.replays_used, curve.live_calls_used),
}

# %% [markdown]
# The curve is a table as well.

# %%
curve.curve.to_pandas()

# %% [markdown]
# ## Nothing to locate
#
# The travel assistant nearly always takes the wrong currency. Its run fails wherever one begins anew, so no step
# is found at which it was lost. That is said in words, and it is no verdict.

# %%
trip = bundled("trip")
settings |= dict(agent=trip.agent, upstream=trip.upstream(), oracle=trip.oracle, allow_tools=trip.tools)
afnb.locate(trip.bad, **settings)

# %% [markdown]
# On the command line:
#
# ```bash
# afnb locate bad.json --success 'regex:Refund of .* issued' --upstream https://api.openai.com \
#     --allow-tools lookup_order,customer_history,refund_policy,issue_refund -- python agent.py
# ```
#
# What the credible interval claims, and what the confirmation does, is in `docs/method.md`, section 9.
