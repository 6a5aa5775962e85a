"""The agent of docs/record.md: standard library alone; ``--today`` puts a date in its prompt."""

import json
import os
import sys
import urllib.request

messages = [{"role": "user", "content": "Where is order 7? sk-0123456789abcdef0123"}]
if "--today" in sys.argv:
    messages.insert(0, {"role": "system", "content": f"Today is {os.environ['TODAY']}."})
tools = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]
while True:
    body = json.dumps({"model": "m", "messages": messages, "tools": tools}).encode()
    head = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    ask = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, head)
    with urllib.request.urlopen(ask) as answer:
        message = json.load(answer)["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        print(message["content"])
        break
    for call in message["tool_calls"]:
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "in Hamburg"})
