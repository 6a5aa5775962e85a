"""Request bodies of several providers for one conversation, and everything that may vary in them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from afnb.core.cassette import Request

Json = Any


@dataclass(frozen=True)
class Call:
    name: str
    arguments: dict[str, Json]
    result: str


@dataclass(frozen=True)
class Talk:
    """A user's question, then turns of parallel tool calls, each answered."""

    question: str
    turns: tuple[tuple[Call, ...], ...]
    temperature: float = 0.5

    def calls(self) -> int:
        return sum(len(turn) for turn in self.turns)


@dataclass
class Ids:
    """Ids as one run draws them."""

    seed: int
    crossed: bool = False
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def new(self, prefix: str) -> str:
        return prefix + "".join(self._random.choices("abcdefghijkmnpqrstuvwxyz0123456789", k=16))


def _turns(talk: Talk, ids: Ids, prefix: str) -> list[list[tuple[str, str, Call]]]:
    """Per turn: (id of the call, id its result names, the call); crossed swaps the first two results."""
    out = []
    for turn in talk.turns:
        own = [ids.new(prefix) for _ in turn]
        named = list(own)
        if ids.crossed and len(named) > 1:
            named[0], named[1] = named[1], named[0]
        out.append(list(zip(own, named, turn, strict=True)))
    return out


def openai_chat(talk: Talk, ids: Ids) -> Json:
    messages: list[Json] = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": talk.question},
    ]
    for turn in _turns(talk, ids, "call_"):
        messages.append(
            {
                "role": "assistant",
                "content": "thinking",
                "tool_calls": [
                    {
                        "id": own,
                        "type": "function",
                        "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                    }
                    for own, _, call in turn
                ],
            }
        )
        messages += [
            {"role": "tool", "tool_call_id": named, "content": call.result} for _, named, call in turn
        ]
    return {"model": "m", "messages": messages, "temperature": talk.temperature, "tools": [TOOL]}


def anthropic(talk: Talk, ids: Ids) -> Json:
    messages: list[Json] = [{"role": "user", "content": [{"type": "text", "text": talk.question}]}]
    for turn in _turns(talk, ids, "toolu_"):
        signed = {"type": "thinking", "thinking": "hm", "signature": ids.new("sig")}
        calls = [{"type": "tool_use", "id": own, "name": c.name, "input": c.arguments} for own, _, c in turn]
        results = [{"type": "tool_result", "tool_use_id": named, "content": c.result} for _, named, c in turn]
        messages += [{"role": "assistant", "content": [signed, *calls]}, {"role": "user", "content": results}]
    tool = {"name": "look", "description": "looks", "input_schema": TOOL["function"]["parameters"]}
    return {
        "model": "m",
        "max_tokens": 100,
        "messages": messages,
        "tools": [tool],
        "temperature": talk.temperature,
    }


def responses(talk: Talk, ids: Ids) -> Json:
    items: list[Json] = [{"role": "user", "content": talk.question}]
    for turn in _turns(talk, ids, "call_"):
        items.append(
            {"type": "reasoning", "id": ids.new("rs_"), "encrypted_content": ids.new("enc"), "summary": []}
        )
        for own, _, c in turn:
            items.append(
                {
                    "type": "function_call",
                    "id": ids.new("fc_"),
                    "call_id": own,
                    "name": c.name,
                    "arguments": json.dumps(c.arguments),
                }
            )
        items += [
            {"type": "function_call_output", "call_id": named, "output": c.result} for _, named, c in turn
        ]
    return {"model": "m", "input": items, "temperature": talk.temperature}


def gemini(talk: Talk, ids: Ids) -> Json:
    contents: list[Json] = [{"role": "user", "parts": [{"text": talk.question}]}]
    for turn in _turns(talk, ids, "fc"):
        calls = [
            {
                "functionCall": {"id": own, "name": c.name, "args": c.arguments},
                "thoughtSignature": ids.new("ts"),
            }
            for own, _, c in turn
        ]
        results = [
            {"functionResponse": {"id": named, "name": c.name, "response": {"result": c.result}}}
            for _, named, c in turn
        ]
        contents += [{"role": "model", "parts": calls}, {"role": "user", "parts": results}]
    return {"contents": contents, "generationConfig": {"temperature": talk.temperature}}


def bedrock(talk: Talk, ids: Ids) -> Json:
    messages: list[Json] = [{"role": "user", "content": [{"text": talk.question}]}]
    for turn in _turns(talk, ids, "tooluse_"):
        calls = [{"toolUse": {"toolUseId": own, "name": c.name, "input": c.arguments}} for own, _, c in turn]
        results = [
            {"toolResult": {"toolUseId": named, "content": [{"json": {"result": c.result}}]}}
            for _, named, c in turn
        ]
        messages += [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    return {"messages": messages, "inferenceConfig": {"temperature": talk.temperature}}


TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "looks",
        "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
    },
}
PATHS = {
    openai_chat: "/v1/chat/completions",
    anthropic: "/v1/messages",
    responses: "/v1/responses",
    gemini: "/v1beta/models/m:generateContent",
    bedrock: "/model/m/converse",
}
SHAPES = tuple(PATHS)


def request(body: Json, path: str = "/v1/chat/completions") -> Request:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Request("POST", path, (("content-type", "application/json"),), data)


def shuffled(value: Json, rng: random.Random) -> Json:
    """The same JSON value with the keys of every object in another order."""
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {key: shuffled(value[key], rng) for key in keys}
    if isinstance(value, list):
        return [shuffled(one, rng) for one in value]
    return value


def leaves(value: Json, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Paths of all values that are no object and no array."""
    if isinstance(value, dict):
        return [leaf for key, one in value.items() for leaf in leaves(one, (*path, key))]
    if isinstance(value, list):
        return [leaf for i, one in enumerate(value) for leaf in leaves(one, (*path, i))]
    return [path]


def changed_at(value: Json, path: tuple[str | int, ...]) -> Json:
    """A copy with one leaf changed."""
    if not path:
        if isinstance(value, bool):
            return not value
        if isinstance(value, str):
            return value + "x"
        return 7 if value is None else value + 1
    if isinstance(value, dict):
        return {key: changed_at(one, path[1:]) if key == path[0] else one for key, one in value.items()}
    return [changed_at(one, path[1:]) if i == path[0] else one for i, one in enumerate(value)]


_text = st.text(st.characters(codec="utf-8"), max_size=12)
_arguments = st.dictionaries(
    st.sampled_from(["id", "call_id", "tool_call_id", "type", "n", "signature", "cache_control", "q"]),
    st.one_of(st.integers(-5, 5), st.booleans(), st.none(), _text, st.floats(-4, 4), st.just("function")),
    max_size=3,
)
_calls = st.builds(Call, st.sampled_from(["look", "send"]), _arguments, _text)
talks = st.builds(
    Talk,
    _text,
    st.lists(st.lists(_calls, min_size=1, max_size=3).map(tuple), max_size=3).map(tuple),
    st.sampled_from([0.5, 0.25, 0.0, 1.0]),
)
