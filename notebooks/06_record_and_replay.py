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
# # Record an agent, and replay it
#
# An experiment on an agent is worth what its recording is worth. In this notebook an agent is recorded, replayed
# without its provider, changed so that it misses, and the miss is explained.
#
# The model is **simulated** (a few lines of Python below), so nothing here needs a key or a network. The agent, its
# HTTP requests and its tool are real.

# %%
import afnb
from afnb.io.answers import Call


def model(talk, rng):
    """Plays the model: looks the order up, then says where it is."""
    if not talk.called("look_up"):
        return Call("look_up", {"order": 7})
    return f"Order 7 is {talk.result_of('look_up')}."


# %% [markdown]
# The agent takes the HTTP client that it is given. With an official SDK this is one argument,
# `OpenAI(http_client=...)`; here are the bare requests.


# %%
@afnb.tool(effect="read")
def look_up(order):
    print("the tool runs")
    return "in Hamburg"


def agent(http, prompt="Where is order 7?"):
    messages = [{"role": "user", "content": prompt}]
    while True:
        body = {"model": "simulated-1", "messages": messages, "stream": True}
        said, calls = "", []
        with http.stream("POST", "https://api.openai.com/v1/chat/completions", json=body) as answer:
            for delta in deltas(answer):
                said += delta.get("content") or ""
                for piece in delta.get("tool_calls", []):
                    if "id" in piece:
                        calls.append(piece)
                    else:
                        calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
        if not calls:
            return said
        messages.append({"role": "assistant", "content": said or None, "tool_calls": calls})
        for call in calls:
            result = look_up(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


# %%
import json


def deltas(answer):
    """What each event of a stream adds."""
    for line in answer.iter_lines():
        if line.startswith("data: {"):
            yield json.loads(line[6:])["choices"][0]["delta"]


# %% [markdown]
# ## Record
#
# `Recorder` writes every exchange to disk when it is complete, and never over an existing file. For a real provider
# give its name, `"openai"`, in place of the simulated one.

# %%
with afnb.Recorder("run.json", afnb.SimulatedUpstream(model)) as recorder:
    print(agent(recorder.http_client("httpx")))
recorder.cassette

# %% [markdown]
# ## Replay
#
# No upstream is given, so nobody else can answer. The tool does not run: its result is on the recording too. The
# provider's fresh tool-call ids, key order and the like are forgiven; the card counts which rule was needed.

# %%
again = afnb.replay("run.json", agent=lambda ctx: agent(ctx.http_client("httpx")))
again

# %%
assert again.faithful

# %% [markdown]
# ## When a request misses
#
# An agent with a date in its prompt asks something else every day. That is a result, with the place where the two
# requests part.

# %%
with afnb.Recorder("dated.json", afnb.SimulatedUpstream(model)) as recorder:
    agent(recorder.http_client("httpx"), "Today is 2026-01-31. Where is order 7?")


def tomorrow(ctx):
    return agent(ctx.http_client("httpx"), "Today is 2026-02-01. Where is order 7?")


missed = afnb.replay("dated.json", agent=tomorrow)
missed.misses.to_pandas()[["path", "where", "recorded", "asked"]]

# %% [markdown]
# A rule by name forgives dates, on both sides. It is counted, so a report shows what the match rests on.

# %%
forgiven = afnb.replay("dated.json", agent=tomorrow, matching=afnb.Matching().replacing("dates"))
forgiven

# %%
assert forgiven.faithful
assert not missed.faithful

# %% [markdown]
# ## Secrets
#
# Credentials in headers are never written. What is in bodies is kept, unless it is taken out before it is written; the
# recording says so, and the same is taken out of each request before it is compared, so it still replays.

# %%
hide = afnb.Redaction(patterns=(r"sk-\w+",))
with afnb.Recorder("clean.json", afnb.SimulatedUpstream(model), redaction=hide) as recorder:
    agent(recorder.http_client("httpx"), "My key is sk-abc123. Where is order 7?")
assert b"sk-abc123" not in open("clean.json", "rb").read()
clean = afnb.replay(
    "clean.json", agent=lambda ctx: agent(ctx.http_client("httpx"), "My key is sk-abc123. Where is order 7?")
)
clean.faithful

# %% [markdown]
# ## Change one answer
#
# This is what recordings are for: serve the recording up to a step, change that one, let the rest go live. The tool's
# result is a step too.

# %%
e = afnb.what_if(
    "run.json",
    afnb.Edit(1, "lost"),
    agent=lambda ctx: agent(ctx.http_client("httpx")),
    upstream=afnb.SimulatedUpstream(model),
    oracle=lambda run: "lost" in str(run.answer),
    allow_tools=["look_up"],
    seed=1,
    progress=False,
)
e

# %% [markdown]
# Agents that run as a command, in any language, one line for each SDK, MCP, and what to do after a crash:
# `docs/record.md`.
