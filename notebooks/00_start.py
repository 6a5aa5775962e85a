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
# # Which step made the agent fail?
#
# A support agent was asked to refund an order. One run went well, one declined a refund that was due.
# Both were recorded at the HTTP boundary between the agent and its model. In five minutes you will see
#
# 1. **where** the two runs part,
# 2. **whether that mattered**, found out by re-running the agent with one answer changed, and
# 3. two more questions whose honest answers are *it made no difference* and *the replays do not decide*.
#
# The recordings come with afnb. Their model is **simulated** (a seeded few lines of Python), so nothing
# here needs a key or a network; the agent, its HTTP requests and its tools are real.

# %%
import afnb
from afnb.experiments.demo import bundled

refund = bundled("refund")
bad, good = refund.bad, refund.good  # the same as afnb.load("data/refund/bad.json"), ...
bad

# %% [markdown]
# ## Where do they part?
#
# `diff` aligns the two runs step by step. It absorbs retries and wording, and names the **fork**: the first
# place from which the bad run does not find back.

# %%
d = afnb.diff(bad, good)
d

# %%
ax = afnb.plot.alignment(d)

# %% [markdown]
# The bad run took a headset for an accessory and looked up the wrong policy. That is a difference, and a
# plausible one. Every step after it differs too. Which one made the run fail?
#
# ## Find out, by experiment
#
# `attribute` puts the good run's answer in place of the bad one, serves the recording up to there, lets
# everything after it go live, and looks whether the run recovers. The **control arm** does exactly the same
# with the answer as it was recorded, because an agent sometimes recovers by itself.
#
# The agent's tools run again in every replay, so they have to be allowed by name. These are pure functions.

# %%
a = afnb.attribute(
    bad,
    good,
    agent=refund.agent,  # for your own: afnb.Command(["python", "agent.py"], base_url_env="OPENAI_BASE_URL")
    upstream=refund.upstream(),  # for your own: "https://api.openai.com"
    oracle=refund.oracle,  # what counts as recovered; for your own: lambda run: "refund issued" in run.answer
    allow_tools=refund.tools,
    n_jobs=4,
    seed=1,
    progress=False,
)
a

# %% [markdown]
# Every replay is a row, and there is a plot for what the card shows.

# %%
a.replays.to_pandas()[["experiment", "arm", "index", "used", "recovery", "served", "live", "answer"]].tail(8)

# %%
ax = afnb.plot.replays(a)

# %% [markdown]
# ## Try something yourself
#
# `what_if` is one experiment by hand. Does it help to tell the agent, at the same step, to look again?

# %%
e = afnb.what_if(
    bad,
    afnb.Edit(
        4,
        {
            "text": "A headset is electronics, I check that policy.",
            "tool_calls": [{"name": "refund_policy", "arguments": {"category": "electronics"}}],
        },
    ),
    agent=refund.agent,
    upstream=refund.upstream(),
    oracle=refund.oracle,
    allow_tools=refund.tools,
    seed=1,
    progress=False,
)
e

# %% [markdown]
# ## When nothing was wrong there
#
# A second pair parts at its very first search: one run asked for an official count, the other for newspaper
# stories. The bad run ended with the wrong number. A diff points at the search. The experiment says that
# changing it makes no such difference.

# %%
report = bundled("report")
n = afnb.attribute(
    report.bad,
    report.good,
    agent=report.agent,
    upstream=report.upstream(),
    oracle=report.oracle,
    allow_tools=report.tools,
    seed=1,
    progress=False,
)
n

# %% [markdown]
# ## When the replays do not decide
#
# A hint in the first answer helps a little. The small budget set here is not enough to be sure either way, and afnb says
# so: **Unverified** is a result, not an error.

# %%
from afnb.experiments.demo import HINT

u = afnb.what_if(
    report.bad,
    afnb.Edit(0, {"text": HINT}),
    agent=report.agent,
    upstream=report.upstream(),
    oracle=report.oracle,
    allow_tools=report.tools,
    budget=afnb.Budget(live_calls=24),
    seed=1,
    progress=False,
)
u

# %%
ax = afnb.plot.evidence(u)

# %% [markdown]
# ## Now your own agent
#
# ```bash
# afnb record --out bad.json --upstream https://api.openai.com --base-url-env OPENAI_BASE_URL -- python agent.py
# ```
#
# then `afnb.load("bad.json")` and the cells above. What a verdict means, and what it cannot show, is in
# `docs/method.md`.
