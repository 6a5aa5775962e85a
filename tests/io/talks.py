"""Made-up conversations for the tests of sessions: an agent with a tool, and providers to ask."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from afnb.core.arm import AnswerPatch, AskAgain, ResultPatch
from afnb.core.cassette import Cassette, Request, Response
from afnb.core.providers import conversation_key
from afnb.core.tape import Tape
from afnb.io.serve import Forward, Refuse, Session

JSON_HEADERS = (("content-type", "application/json"), ("authorization", "Bearer SECRET"))
RETRIED_BY_SDKS = {408, 409, 429, *range(500, 600)}


def chat(user: str, history: Sequence[dict[str, Any]] = (), model: str = "m") -> Request:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": user}, *history]
    body = json.dumps({"model": model, "messages": messages}).encode()
    return Request("POST", "/v1/chat/completions", JSON_HEADERS, body)


def said(text: str = "", *calls: tuple[str, str, dict[str, Any]], tokens: int = 10) -> Response:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
            for i, n, a in calls
        ]
    usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    body = json.dumps({"id": "x", "choices": [choice], "usage": usage}).encode()
    return Response(200, (("content-type", "application/json"), ("set-cookie", "SECRET")), body)


BUSY = Response(429, (("content-type", "application/json"), ("retry-after", "20")), b'{"error":{}}')


@dataclass
class Talk:
    """One conversation of an agent: what it says, and the tools it runs by itself."""

    session: Session
    live: Callable[[Request], Response]
    user: str = "u"
    history: list[dict[str, Any]] = field(default_factory=list)
    tool: Callable[[str, Any], Any] = lambda name, arguments: {"ran": name, **arguments}
    last: Any = None

    def ask(self) -> Any:
        """Ask the model with what there is; its answer is appended and its tools run."""
        request = chat(self.user, self.history)
        turn = self.session.decide(request)
        self.last = turn
        if isinstance(turn, Refuse):
            return turn
        if isinstance(turn, Forward):
            response = self.live(turn.request)
            self.session.complete(turn, response)
        else:
            response = turn.response
        if response.status != 200:
            return response
        message = json.loads(response.body)["choices"][0]["message"]
        self.history.append(message)
        for call in message.get("tool_calls", ()):
            arguments = json.loads(call["function"]["arguments"])
            value = self.tool(call["function"]["name"], arguments)
            self.history.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(value)})
        return message

    def run(self, most: int = 10) -> str | None:
        """Until the model answers without a tool call; its text, None if refused."""
        for _ in range(most):
            message = self.ask()
            if not isinstance(message, dict):
                return None
            if "tool_calls" not in message:
                return str(message["content"])
        return None


def record(answers: Sequence[Response], user: str = "u") -> Cassette:
    """Record a talk with scripted answers."""
    session = Session(id="rec")
    script = iter(answers)
    Talk(session, lambda _: next(script), user).run()
    return session.cassette()


THREE = (said("", ("c0", "look", {"n": 0})), said("", ("c1", "look", {"n": 1})), said("done"))


def nobody(request: Request) -> Response:
    raise AssertionError(f"a live call was made: {request.body!r}")


@dataclass
class Live:
    """A provider that counts; its answers are numbered and end after ``turns`` tool calls."""

    turns: int = 1
    seen: list[Request] = field(default_factory=list)

    def __call__(self, request: Request) -> Response:
        self.seen.append(request)
        n = len(self.seen)
        if n <= self.turns:
            return said("", (f"live{n}", "look", {"live": n}))
        return said(f"live end {n}")


def patch(tape: Tape, exchange: int, response: Response, *, recorded: bool = False) -> AnswerPatch:
    request = tape.cassette.exchanges[exchange].request
    return AnswerPatch(2 * exchange, exchange, exchange, conversation_key(request), response, recorded)


def again(tape: Tape, exchange: int, model: str | None = None) -> AskAgain:
    request = tape.cassette.exchanges[exchange].request
    return AskAgain(2 * exchange, exchange, exchange, conversation_key(request), model)


def result(exchange: int, value: Any, *, recorded: bool = False, index: int = 0) -> ResultPatch:
    return ResultPatch(2 * exchange + 1, exchange, f"c{exchange}", index, "look", value, recorded)
