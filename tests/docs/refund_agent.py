"""The agent of the README's four steps, on the standard library alone."""

import json
import os
import urllib.request

ORDERS = {"8841": {"item": "noise-cancelling headset", "price": 129, "days_since_delivery": 12}}


def lookup_order(order):
    return ORDERS[order]


def refund_policy(category):
    return {"return_window_days": {"electronics": 30}.get(category, 7)}


def issue_refund(order, amount):
    if not os.environ.get("DRY_RUN"):
        with open("paid.txt", "a") as file:
            file.write(f"{order} {amount}\n")
    return {"status": "paid", "amount": amount}


TOOLS = {tool.__name__: tool for tool in (lookup_order, refund_policy, issue_refund)}
messages = [{"role": "user", "content": "Dana wants a refund for order 8841."}]
for _ in range(10):
    body = {
        "model": "m",
        "messages": messages,
        "tools": [{"type": "function", "function": {"name": name, "parameters": {}}} for name in TOOLS],
    }
    ask = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    )
    said = json.load(urllib.request.urlopen(ask))["choices"][0]["message"]
    messages.append(said)
    if not said.get("tool_calls"):
        print(said["content"])
        break
    for call in said["tool_calls"]:
        result = TOOLS[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
