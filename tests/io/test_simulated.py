from __future__ import annotations

import pickle
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core.cassette import Request, Response
from afnb.core.jsonvalue import dumps, loads
from afnb.errors import ParameterError, UpstreamError
from afnb.io.answers import Call, Say
from afnb.io.conversation import Conversation, read_conversation
from afnb.io.simulated import Mix, SimulatedUpstream

USER = [{"role": "user", "content": "hi"}]


def ask(messages: list[Any], path: str = "/v1/chat/completions", **more: Any) -> Request:
    return Request("POST", path, (), dumps({"model": "m", "messages": messages, **more}).encode())


def dice(talk: Conversation, rng: random.Random) -> Any:
    return [Call("roll", {"value": rng.randrange(10**9)})]


def said(response: Response) -> Any:
    return loads(response.body)["choices"][0]["message"]


def test_the_answer_depends_on_seed_arm_index_request_and_occurrence_alone() -> None:
    def bodies(seed: int, replay: tuple[int, str, int], request: Request) -> tuple[bytes, bytes]:
        view = SimulatedUpstream(dice, seed=seed).for_replay(*replay)
        return view.answer(request).body, view.answer(request).body

    base = bodies(0, (0, "patch", 0), ask(USER))
    assert base == bodies(0, (0, "patch", 0), ask(USER))
    assert base[0] != base[1]
    others = [
        bodies(1, (0, "patch", 0), ask(USER)),
        bodies(0, (1, "patch", 0), ask(USER)),
        bodies(0, (0, "control", 0), ask(USER)),
        bodies(0, (0, "patch", 1), ask(USER)),
        bodies(0, (0, "patch", 0), ask([*USER, *USER])),
    ]
    assert len({base[0], *(first for first, _ in others)}) == 6


def test_key_order_and_spaces_of_the_request_do_not_count() -> None:
    simulated = SimulatedUpstream(dice)
    one = Request("POST", "/v1/messages", (("x", "1"),), b'{"model":"m","messages":[]}')
    two = Request("POST", "/v1/messages", (), b'{ "messages": [],\n "model": "m" }')
    answers = [simulated.for_replay(0, "a", 0).answer(request).body for request in (one, two)]
    first, second = (loads(answer) for answer in answers)
    assert first["content"] == second["content"]


def test_the_order_in_which_threads_ask_does_not_count() -> None:
    simulated = SimulatedUpstream(dice, latency_s=(0.0, 0.002))
    requests = [ask([{"role": "user", "content": str(i)}]) for i in range(40)]
    view = simulated.for_replay(0, "patch", 3)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(view.answer, requests))
    alone = simulated.for_replay(0, "patch", 3)
    assert together == [alone.answer(request) for request in reversed(requests)][::-1]
    assert view.calls == 40


def test_replays_of_one_arm_are_independent_draws() -> None:
    policy = lambda talk, rng: Mix([(0.5, "yes"), (0.5, "no")])  # noqa: E731
    simulated = SimulatedUpstream(policy)
    draws = [said(simulated.for_replay(7, "patch", i).answer(ask(USER)))["content"] for i in range(400)]
    assert 160 <= draws.count("yes") <= 240


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(any), st.integers(0, 10**6))
@settings(max_examples=60)
def test_a_mix_never_picks_what_has_no_probability(weights: list[int], seed: int) -> None:
    total = sum(weights)
    mix = Mix([(weight / total, i) for i, weight in enumerate(weights)])
    assert weights[mix.pick(random.Random(seed))] > 0


@pytest.mark.parametrize("weights", [[], [0.5], [0.5, 0.6], [-0.5, 1.5], [float("nan")]])
def test_a_mix_that_is_none_is_refused(weights: list[float]) -> None:
    with pytest.raises(ParameterError):
        Mix([(weight, "x") for weight in weights])


@pytest.mark.parametrize(
    "options",
    [
        {"policy": "text"},
        {"provider": "openai"},
        {"latency_s": -1},
        {"latency_s": (2, 1)},
        {"latency_s": float("nan")},
        {"pace_s": -1},
    ],
)
def test_settings_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        SimulatedUpstream(**{"policy": dice, **options})


def test_what_it_does_not_speak_is_an_error_answer_in_the_right_shape() -> None:
    only_chat = SimulatedUpstream(dice, provider="openai.chat")
    answer = only_chat.answer(ask(USER, "/v1/messages"))
    assert answer.status == 404
    assert loads(answer.body)["type"] == "error"
    both = SimulatedUpstream(dice)
    assert both.answer(Request("GET", "/v1/models")).status == 404
    assert both.answer(Request("POST", "/v1/chat/completions", (), b"nonsense")).status == 400
    assert both.answer(ask(USER, "/v1/messages")).status == 200


def test_a_policy_may_give_any_kind_of_answer() -> None:
    values: list[Any] = ["text", Call("f", {}), [Call("f", {}), Call("g", {})], Say("a", (Call("f", {}),))]
    for value in values:
        assert SimulatedUpstream(lambda talk, rng, v=value: v).answer(ask(USER)).status == 200
    busy = Response(429, (("retry-after", "1"),))
    assert SimulatedUpstream(lambda talk, rng: busy).answer(ask(USER)) is busy
    with pytest.raises(UpstreamError, match="the policy gave int"):
        SimulatedUpstream(lambda talk, rng: 3).answer(ask(USER))
    with pytest.raises(UpstreamError, match="the policy raised ZeroDivisionError"):
        SimulatedUpstream(lambda talk, rng: 1 / 0).answer(ask(USER))


def test_latency_and_pace() -> None:
    simulated = SimulatedUpstream(lambda t, r: "one two three", latency_s=0.03, pace_s=0.01)
    start = time.perf_counter()
    reply = simulated.open(ask(USER, stream=True))
    assert time.perf_counter() - start >= 0.03
    whole = reply.collect()
    assert whole.chunks is not None
    assert whole.chunks[-1].ms >= 10 * (len(whole.chunks) - 1) * 0.9
    start = time.perf_counter()
    again = simulated.for_replay(0, "a", 0).answer(ask(USER, stream=True))
    assert time.perf_counter() - start >= 0.03 + 0.01 * (len(whole.chunks) - 1)
    assert again.chunks is not None
    assert [chunk.ms for chunk in again.chunks][:3] == [0.0, 10.0, 20.0]


def test_a_view_can_be_sent_to_another_process() -> None:
    view = SimulatedUpstream(dice, latency_s=(0.0, 0.0), seed=4).for_replay(1, "patch", 2)
    back = pickle.loads(pickle.dumps(view))
    assert back.answer(ask(USER)) == view.answer(ask(USER))


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_the_policy_sees_the_conversation(path: str) -> None:
    chat = path.endswith("completions")
    if chat:
        messages: list[Any] = [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "refund "}, {"type": "text", "text": "7"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"id": 7}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": '{"status": "paid"}'},
        ]
        request = ask(messages, path, tools=[{"type": "function", "function": {"name": "look"}}])
    else:
        messages = [
            {"role": "user", "content": "refund 7"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {"id": 7}}],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [{"type": "text", "text": '{"status": "paid"}'}],
                    }
                ],
            },
        ]
        request = ask(messages, path, system=[{"type": "text", "text": "be brief"}], tools=[{"name": "look"}])
    talk = read_conversation(request)
    assert talk is not None
    assert (talk.system, talk.user, talk.turn, talk.tools, talk.model) == (
        "be brief",
        "refund 7",
        1,
        ("look",),
        "m",
    )
    assert talk.called("look")
    assert not talk.called("pay")
    assert talk.messages[1].calls == (Call("look", {"id": 7}, "c1"),)
    assert talk.result_of("look") == {"status": "paid"}
    assert talk.result_of("pay") is None
    assert talk.last.results[0].name == "look"
    assert talk.says("paid")
    assert not talk.says("unpaid")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=12,
    ),
    st.sampled_from(["/v1/chat/completions", "/v1/messages"]),
    st.sampled_from(["messages", "tools", "system", "stream"]),
)
@settings(max_examples=150)
def test_no_body_breaks_the_reading(value: Any, path: str, field: str) -> None:
    body = {
        "messages": [{"role": "user", "content": value}, value, {"role": "assistant", "tool_calls": value}]
    }
    request = Request("POST", path, (), dumps({**body, field: value}).encode())
    assert SimulatedUpstream(lambda talk, rng: talk.user or "x").answer(request).status in (200, 400)


def test_views_do_not_share_counters() -> None:
    simulated = SimulatedUpstream(dice)
    views = [simulated.for_replay(0, "patch", 0) for _ in range(8)]
    results: list[bytes] = []

    def use(view: SimulatedUpstream) -> None:
        results.append(b"".join(view.answer(ask(USER)).body for _ in range(5)))

    threads = [threading.Thread(target=use, args=(view,)) for view in views]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1
