from __future__ import annotations

import functools
import pickle
import threading
from typing import Any

import pytest

from afnb.core.cassette import Request, Response
from afnb.core.jsonvalue import loads
from afnb.errors import ParameterError, UpstreamError
from afnb.io.answers import Call, Say
from afnb.io.live import LiveUpstream
from afnb.io.simulated import SimulatedUpstream
from afnb.io.upstream import FunctionUpstream, RoutedUpstream, ScriptedUpstream, Upstream, as_upstream

CHAT = Request("POST", "/v1/chat/completions", (), b'{"model":"m","messages":[]}')
MESSAGES = Request("POST", "/v1/messages", (), b'{"model":"m","messages":[]}')


def named(request: Request) -> dict[str, str]:
    return {"path": request.path}


def seeded(request: Request, seed: int) -> dict[str, int]:
    return {"seed": seed}


def text_of(response: Response) -> Any:
    body = loads(response.body)
    return body["choices"][0]["message"]["content"] if "choices" in body else body["content"][0]["text"]


def test_a_script_answers_in_order_then_says_it_is_empty() -> None:
    scripted = ScriptedUpstream(["one", Say("two"), {"raw": 3}, (404, {"error": "four"}), Response(201)])
    assert [text_of(scripted.answer(CHAT)) for _ in range(2)] == ["one", "two"]
    assert scripted.answer(CHAT).body == b'{"raw":3}'
    assert scripted.answer(CHAT).status == 404
    assert scripted.answer(CHAT).status == 201
    with pytest.raises(UpstreamError, match=r"has 5 answers and was asked for one more: POST /v1/chat"):
        scripted.answer(CHAT)
    assert len(scripted.requests) == 6


def test_a_script_raises_its_exceptions() -> None:
    with pytest.raises(UpstreamError, match="ValueError: boom"):
        ScriptedUpstream([ValueError("boom")]).answer(CHAT)
    with pytest.raises(UpstreamError, match=r"^down$"):
        ScriptedUpstream([UpstreamError("down")]).answer(CHAT)


def test_every_replay_has_the_script_from_its_beginning() -> None:
    scripted = ScriptedUpstream(["one", "two"])
    scripted.answer(CHAT)
    views = [scripted.for_replay(0, arm, i) for arm in ("patch", "control") for i in range(2)]
    assert [text_of(view.answer(CHAT)) for view in views] == ["one"] * 4
    assert text_of(scripted.answer(CHAT)) == "two"


def test_threads_take_each_answer_once() -> None:
    scripted = ScriptedUpstream([{"n": i} for i in range(200)])
    got: list[int] = []

    def take() -> None:
        got.extend(loads(scripted.answer(CHAT).body)["n"] for _ in range(20))

    threads = [threading.Thread(target=take) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(200))


def test_a_function_gets_a_seed_of_its_own_for_each_replay() -> None:
    upstream = as_upstream(seeded)
    first = [loads(upstream.for_replay(1, "patch", i).answer(CHAT).body)["seed"] for i in range(5)]
    again = [loads(upstream.for_replay(1, "patch", i).answer(CHAT).body)["seed"] for i in range(5)]
    other = [loads(upstream.for_replay(1, "control", i).answer(CHAT).body)["seed"] for i in range(5)]
    assert first == again
    assert len({*first, *other}) == 10


@pytest.mark.parametrize(
    ("f", "with_seed"),
    [
        (named, False),
        (seeded, True),
        (lambda request, seed=0: {"seed": seed}, True),
        (lambda request, other=0: {"seed": "none"}, False),
        (functools.partial(seeded, seed=5), False),
        (lambda *args: {"seed": len(args)}, False),
    ],
)
def test_which_functions_get_a_seed(f: Any, with_seed: bool) -> None:
    assert FunctionUpstream(f)._with_seed is with_seed
    FunctionUpstream(f).answer(CHAT)


@pytest.mark.parametrize(
    "value", [3, 2.5, object(), {1, 2}, {"a": float("nan")}, {"a": object()}, b"x", True]
)
def test_an_answer_that_is_none_is_explained(value: Any) -> None:
    with pytest.raises(UpstreamError, match=r"answered with|not a JSON value"):
        FunctionUpstream(lambda request: value).answer(CHAT)


def test_a_function_that_raises_is_an_upstream_that_failed() -> None:
    def broken(request: Request) -> None:
        raise KeyError("x")

    with pytest.raises(UpstreamError, match="broken raised KeyError: 'x'"):
        FunctionUpstream(broken).answer(CHAT)


def test_an_async_function_is_refused() -> None:
    async def later(request: Request) -> None: ...

    with pytest.raises(ParameterError, match="async function"):
        as_upstream(later)


def test_what_becomes_an_upstream() -> None:
    simulated = SimulatedUpstream(lambda talk, rng: "x")
    assert as_upstream(simulated) is simulated
    assert isinstance(as_upstream("https://api.openai.com"), LiveUpstream)
    assert isinstance(as_upstream(named), FunctionUpstream)
    assert isinstance(as_upstream(["a"]), ScriptedUpstream)
    assert isinstance(as_upstream({"openai": "https://x"}), RoutedUpstream)


@pytest.mark.parametrize("value", [None, 3, object(), b"https://x", {}])
def test_anything_else_says_what_is_expected(value: Any) -> None:
    with pytest.raises(
        ParameterError, match=r"expected the provider's origin \(https://api.openai.com\), a function"
    ):
        as_upstream(value)


def test_an_object_with_answer_will_do() -> None:
    class Theirs:
        origin = "theirs"

        def answer(self, request: Request) -> Response:
            return Response(200, (), b"x")

    upstream = as_upstream(Theirs())
    assert isinstance(upstream, Upstream)
    assert upstream.answer(CHAT).body == b"x"
    assert upstream.origin == "theirs"
    assert upstream.for_replay(0, "patch", 0) is upstream


def test_routes_by_name_by_path_and_else_the_first() -> None:
    both = RoutedUpstream(
        {"local": ["l"], "anthropic": ["a"], "gemini": ["g"], "ollama": ["o"], "mistral": ["m"]}
    )

    def who(name: str | None, path: str) -> Any:
        return both.route(name, Request("POST", path)).answers[0]  # type: ignore[attr-defined]

    assert who("local", "/v1/messages") == "l"
    assert who(None, "/v1/messages?beta=true") == "a"
    assert who(None, "/v1/messages/count_tokens") == "a"
    assert who(None, "/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse") == "g"
    assert who(None, "/api/chat") == "o"
    assert who(None, "/v1/fim/completions") == "m"
    assert who(None, "/v1/chat/completions") == "l"
    assert text_of(both.answer(MESSAGES)) == "a"
    assert both.open(CHAT).collect().status == 200
    with pytest.raises(UpstreamError, match=r"no upstream is called 'x'; there are local, anthropic"):
        both.route("x", CHAT)
    view = both.for_replay(0, "patch", 0)
    assert text_of(view.answer(MESSAGES)) == "a"


def test_other_upstreams_ignore_the_route() -> None:
    scripted = ScriptedUpstream([])
    assert scripted.route("any", CHAT) is scripted


@pytest.mark.parametrize(
    "upstream",
    [
        as_upstream(named),
        as_upstream(["a", {"b": 1}]),
        as_upstream({"x": "https://x", "y": named}),
        as_upstream(named).for_replay(3, "patch", 4),
    ],
)
def test_upstreams_can_be_sent_to_another_process(upstream: Upstream) -> None:
    back = pickle.loads(pickle.dumps(upstream))
    assert back.origin == upstream.origin
    assert getattr(back, "seed", None) == getattr(upstream, "seed", None)


def test_answers_carry_calls_whose_ids_are_fresh_and_the_same_again() -> None:
    scripted = ScriptedUpstream([Call("f", {"a": 1}), [Call("f", {}), Call("g", {}, id="mine")]])
    first = loads(scripted.answer(CHAT).body)["choices"][0]["message"]["tool_calls"]
    second = loads(scripted.answer(CHAT).body)["choices"][0]["message"]["tool_calls"]
    again = loads(scripted.for_replay(0, "a", 0).answer(CHAT).body)["choices"][0]["message"]["tool_calls"]
    assert first == again
    assert len({first[0]["id"], second[0]["id"]}) == 2
    assert second[1]["id"] == "mine"
