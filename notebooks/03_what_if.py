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
# # What if that answer had been another one?
#
# A recorded run failed. You have a suspicion, or three. `what_if` tries one: it changes what you name,
# serves everything before it from the recording, lets everything after it go live, and does so many times,
# beside a **control arm** that changes nothing.
#
# This notebook asks a support agent's failed run what would have helped: another answer, another tool result,
# another prompt. It ends with a run in which only two changes *together* help. The model is simulated, so
# nothing here needs a key or a network.

# %%
import afnb
from afnb.experiments.demo import bundled

refund = bundled("refund")
bad = refund.bad
settings = dict(
    agent=refund.agent,  # for your own: afnb.Command(["python", "agent.py"], base_url_env="OPENAI_BASE_URL")
    upstream=refund.upstream(),  # for your own: "https://api.openai.com"
    oracle=refund.oracle,  # what counts as recovered; for your own: lambda run: "refund issued" in run.answer
    allow_tools=refund.tools,
    n_jobs=4,
    seed=1,
    progress=False,
)
bad

# %% [markdown]
# ## First the price
#
# `plan` starts nothing. It says what a question will take, in the median and at most, so that you can stop
# here. The rates are assumptions: a change that helps in nine runs of ten, and a run that recovers by itself
# in one of ten.

# %%
afnb.plan(bad, intervention=4, patch_rate=0.9, control_rate=0.1)

# %% [markdown]
# ## Another answer
#
# At step 4 the model took a headset for an accessory and looked up that policy. `Edit` puts another answer
# there.

# %%
look = afnb.Edit(
    4,
    {
        "text": "A headset is electronics, I check that policy.",
        "tool_calls": [{"name": "refund_policy", "arguments": {"category": "electronics"}}],
    },
)
answer = afnb.what_if(bad, look, **settings)
answer

# %% [markdown]
# How the evidence grew, block by block: it reached the threshold after three pairs of replays.

# %%
ax = afnb.plot.evidence(answer)

# %% [markdown]
# ## Another tool result
#
# Was it *which* policy was looked up, or what the policy says? Step 5 is the tool's result. It was made inside
# the agent, so there is no recorded answer to replace: the result is replaced in every later request, by the id
# of its call.

# %%
afnb.what_if(bad, afnb.Edit(5, {"category": "accessories", "return_window_days": 30}), **settings)

# %% [markdown]
# With a window of 30 days the very same lookup leads to the refund. The number decides.
#
# ## Another prompt, and why there is a control arm
#
# Perhaps the agent only needs to be told to be careful. Changing the prompt from step 4 on means asking the
# model again there, and the run recovers every time. A majority of three replays would settle it:

# %%
careful = afnb.SystemPrompt(
    4, "You are a careful support agent. Check the category twice before you decide."
)
vote = afnb.what_if(bad, careful, consensus=afnb.MajorityConsensus(3), **settings)
vote.verdict, vote.label

# %% [markdown]
# But the *old* prompt, asked again, does as well. That the run went wrong was bad luck at step 4, and the
# control arm shows it: both arms recover, so the prompt made no such difference.

# %%
prompt = afnb.what_if(bad, careful, **settings)
prompt

# %%
ax = afnb.plot.replays(prompt)

# %% [markdown]
# Other changes of what the model is asked: `DropMessage`, `InsertMessage`, and `Resample(4, model="...")` for
# another model from a step on. `Resample(4)` alone asks for the answer again.
#
# ## Two steps that help only together
#
# Another run booked a trip for the wrong day *and* charged it in the wrong currency. `Graft` takes the good
# run's answer of a step.

# %%
trip = bundled("trip")
settings |= dict(agent=trip.agent, upstream=trip.upstream(), oracle=trip.oracle, allow_tools=trip.tools)
changes = {"day": [afnb.Graft(2)], "currency": [afnb.Graft(4)], "both": [afnb.Graft(2), afnb.Graft(4)]}
found = {name: afnb.what_if(trip.bad, change, good=trip.good, **settings) for name, change in changes.items()}
{name: (e.verdict, e.label) for name, e in found.items()}

# %%
found["both"]

# %% [markdown]
# ## A branch of a branch
#
# Every replay is a recording of its own. One in which the day was put right is a run that fails for the
# currency alone, and can be asked in its turn.

# %%
branch = next(r.recording for r in found["day"].results if r.role == "patch")
francs = {
    "text": "The card is Swiss, so francs.",
    "tool_calls": [{"name": "currency_rate", "arguments": {"pair": "EUR/CHF"}}],
}
afnb.what_if(branch, afnb.Edit(4, francs), **settings)

# %% [markdown]
# ## Every replay is a row

# %%
found["both"].replays.to_pandas()[["arm", "index", "used", "recovery", "served", "live", "answer"]]

# %% [markdown]
# On the command line the first question is
#
# ```bash
# afnb what-if bad.json --step 4 --value new.json --success 'regex:Refund of .* issued' \
#     --upstream https://api.openai.com --allow-tools refund_policy,issue_refund -- python agent.py
# ```
#
# Next: [04_attribute](04_attribute.ipynb) finds the steps by itself, from a good run.
# [05_locate](05_locate.ipynb) does it without one. What a verdict means is in `docs/method.md`.
