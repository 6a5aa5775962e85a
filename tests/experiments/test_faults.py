"""Everything that can go wrong with a replay: a value with a reason, or one sentence."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.cassette import Response
from afnb.errors import AgentError, UpstreamError
from afnb.experiments.agents import Function
from afnb.experiments.demo import bundled
from afnb.experiments.replay import derive_seed
from afnb.io.answers import error
from afnb.io.serve import Session
from afnb.io.simulated import SimulatedUpstream
from afnb.io.upstream import as_upstream

sys.path.insert(0, str(Path(__file__).parent))
from planted import agent, experiment, policy, recording


def reasons(e: afnb.Experiment) -> set[tuple[str | None, str | None]]:
    return {(r.reason, r.lost) for r in e.results}


def test_an_agent_that_cannot_start_ends_it_with_one_sentence() -> None:
    with pytest.raises(AgentError, match="no-such-program"):
        experiment(1, 0, agent=afnb.Command(["no-such-program"]))


def test_an_agent_that_asks_nothing_is_no_quiet_live_run() -> None:
    with pytest.raises(AgentError, match=r"0 of 2 exchanges.*base_url_env=.*--base-url-env"):
        experiment(1, 0, agent=afnb.Command(["python", "-c", "print('hello')"]))


def test_an_agent_that_asks_something_else_is_told_what_differs() -> None:
    def other(ctx: Any) -> str:
        with ctx.http_client() as client:
            client.post("/v1/chat/completions", json={"model": "other", "messages": []})
        return "done"

    with pytest.raises(AgentError, match="not on the tape"):
        experiment(1, 0, agent=other)


def test_a_provider_that_is_down_gives_no_verdict() -> None:
    def down(_request: Any) -> str:
        raise UpstreamError("connection refused")

    e = experiment(1, 0, upstream=down)
    assert e.label == "Unverified"
    assert ("provider_unreachable", "after") in reasons(e)
    assert "(provider_unreachable: connection refused)" in e.reason
    assert "(provider_unreachable: connection refused)" in e.sentence()


def test_the_card_of_an_attribution_says_why_the_provider_was_not_reached() -> None:
    def down(_request: Any) -> str:
        raise UpstreamError("connection refused by 127.0.0.1:9")

    pair = bundled("refund")
    a = afnb.attribute(
        pair.bad,
        pair.good,
        agent=pair.agent,
        upstream=down,
        oracle=pair.oracle,
        allow_tools=pair.tools,
        progress=False,
    )
    assert (a.label, a.kind) == ("Unverified", "unverified")
    assert "(provider_unreachable: connection refused by 127.0.0.1:9)" in a.reason
    card = a.to_text()
    assert "inconclusive replays" in card
    assert card.count("connection refused by 127.0.0.1:9") >= 2


@pytest.mark.parametrize("status", [401, 429, 500])
def test_a_provider_that_only_refuses_gives_no_verdict(status: int) -> None:
    e = experiment(1, 0, upstream=lambda request: error(request, status, "no"))
    assert (e.verdict, e.label) == ("unverified", "Unverified")
    assert reasons(e) == {("provider_error", "after")}


@pytest.mark.parametrize(
    "body", [b"<html>please log in</html>", b"", b"{}", b'{"error": {"message": "busy"}}']
)
def test_a_success_without_an_answer_is_the_providers_fault(body: bytes) -> None:
    e = experiment(
        1, 0, upstream=lambda request: Response(200, (("content-type", "application/json"),), body)
    )
    assert (e.verdict, e.label) == ("unverified", "Unverified")
    assert reasons(e) == {("provider_error", "after")}


def patient(ctx: Any) -> str:
    """Asks three times, gives up with a polite word where the provider fails, and ends well either way."""
    with ctx.http_client() as client:
        messages: list[dict[str, Any]] = []
        for question in ("first", "second", "third"):
            messages.append({"role": "user", "content": question})
            reply = client.post("/v1/chat/completions", json={"model": "m", "messages": messages})
            if reply.status_code == 429:
                reply = client.post("/v1/chat/completions", json={"model": "m", "messages": messages})
            if reply.status_code != 200:
                return "sorry"
            messages.append(reply.json()["choices"][0]["message"])
        return str(messages[-1]["content"])


def ending_with(last: Any) -> Any:
    """What experiments on ``patient`` ask: an answer, and ``last`` for the third question."""

    def policy(talk: Any, rng: random.Random) -> Any:
        if talk.turn < 2:
            return f"well {rng.random()}"
        return last(talk) if callable(last) else last

    return SimulatedUpstream(policy)


def patient_experiment(last: Any) -> afnb.Experiment:
    session = Session(id="patient")
    Function(patient).run(session, ending_with("wrong"), seed=0, workdir=".")
    session.close()
    return experiment(1, 0, recording=session.cassette(), agent=patient, upstream=ending_with(last))


@pytest.mark.parametrize("status", [401, 429, 503])
def test_a_provider_that_fails_in_the_midst_of_the_tail_gives_no_verdict(status: int) -> None:
    """The agent copes with the failure, but what it would have answered is not known."""
    e = patient_experiment(Response(status, (("content-type", "application/json"),), b"{}"))
    assert (e.verdict, e.label) == ("unverified", "Unverified")
    assert reasons(e) == {("provider_error", "after")}
    assert any(f"HTTP {status}" in (r.detail or "") for r in e.results)


def test_a_limit_that_a_retry_overcame_is_no_fault() -> None:
    busy = Response(429, (("content-type", "application/json"),), b"{}")
    e = patient_experiment(lambda talk: busy if talk.occurrence == 0 else "wrong again")
    assert (e.verdict, e.label) == ("not_recovered", "verified")
    assert {r.report.live_error_statuses for r in e.results} == {(429,)}


def test_a_refusal_of_what_was_asked_is_evidence() -> None:
    """A tail that begins well and ends with a 400 was the agent's own doing."""
    e = patient_experiment(Response(400, (("content-type", "application/json"),), b"{}"))
    assert (e.verdict, e.label) == ("not_recovered", "verified")


def cut(text: str, *, whole: bool) -> Response:
    """A streamed answer, or one that stops in its midst."""
    piece = {"index": 0, "delta": {"content": text}, "finish_reason": "stop" if whole else None}
    body = b"data: " + json.dumps({"id": "x", "choices": [piece]}).encode() + b"\n\n"
    body += b"data: [DONE]\n\n" if whole else b""
    return Response(200, (("content-type", "text/event-stream"),), body, incomplete=not whole)


def test_a_cut_answer_is_not_hidden_by_one_that_the_recording_holds() -> None:
    def reading(ctx: Any) -> str:
        said: list[str] = []
        with ctx.http_client() as client:
            for question in ("first", "second"):
                messages = [{"role": "user", "content": f"{question} {said}"}]
                body = {"model": "m", "messages": messages, "stream": True}
                try:
                    said.append(client.post("/v1/chat/completions", json=body).text)
                except client_errors(client):
                    said.append("cut")
        return " ".join(said)

    session, script = Session(id="cut"), iter((cut("bad", whole=True), cut("end", whole=False)))
    done = Function(reading).run(session, as_upstream(lambda request: next(script)), seed=0, workdir=".")
    session.close()
    assert done.status == "finished", done.error
    e = experiment(
        1, 0, recording=session.cassette(), agent=reading, upstream=lambda request: cut("right", whole=False)
    )
    assert e.label == "Unverified"
    assert ("incomplete_stream", "after") in reasons(e)


def client_errors(client: Any) -> type[Exception]:
    """``httpx.HTTPError``, of whichever module the client comes from."""
    error: type[Exception] = sys.modules[type(client).__module__.partition(".")[0]].HTTPError
    return error


def test_an_oracle_that_raises_is_inconclusive() -> None:
    e = experiment(1, 0, oracle=lambda run: run.no_such_field)
    assert e.label == "Unverified"
    assert reasons(e) == {("oracle_undecided", "after")}
    assert any("AttributeError" in (r.detail or "") for r in e.results)


def test_a_hang_after_the_branch_counts_against_the_claim() -> None:
    def hanging(ctx: Any) -> str:
        text = agent(ctx)
        if text.startswith("wrong"):
            time.sleep(5)
        return text

    e = experiment(
        1, 0, agent=afnb.Function(hanging, timeout_s=0.5), recording=recording_of_right(), n_jobs=8
    )
    assert ("timeout", "after") in reasons(e)
    assert e.label == "Unverified"


def recording_of_right() -> Any:
    from afnb.experiments.agents import Function
    from afnb.io.serve import Session

    session = Session(id="quick")
    Function(agent).run(session, SimulatedUpstream(policy(1, 1), seed=1), seed=0, workdir=".")
    session.close()
    return session.cassette()


def test_a_crash_after_the_branch_is_evidence() -> None:
    def crashing(ctx: Any) -> str:
        text = agent(ctx)
        if text.startswith("wrong") and ctx.seed != check_seed:
            raise RuntimeError("the agent broke")
        return text

    bad = recording()
    check_seed = derive_seed(0, "check", bad.id)
    e = experiment(1, 0, agent=crashing, recording=bad)
    assert (e.verdict, e.label) == ("recovered", "verified")
    assert {r.recovery for r in e.results if r.role == "control"} == {"not_recovered"}


def test_prefix_divergence_is_named_with_its_place() -> None:
    count = iter(range(10_000))

    def drifting(ctx: Any) -> str:
        number = next(count)
        with ctx.http_client() as client:
            messages = [{"role": "user", "content": "start" if number == 0 else f"start {number}"}]
            messages.append({"role": "user", "content": "first"})
            answer = client.post("/v1/chat/completions", json={"model": "m", "messages": messages})
            if number:
                return "lost"
            messages.append(answer.json()["choices"][0]["message"] | {})
        return agent(ctx)

    e = experiment(1, 0, agent=drifting)
    assert e.label == "Unverified"
    if e.results:
        assert ("prefix_diverged", "before") in reasons(e)
        assert any("messages[0].content" in (r.detail or "") for r in e.results)
        assert all(r.report.live == 0 for r in e.results)


def test_interrupted_from_another_thread_keeps_what_finished() -> None:
    slow = SimulatedUpstream(policy(0.5, 0.5), latency_s=0.05)
    seen: list[str] = []

    def watch(result: Any, _title: str) -> None:
        seen.append(result.reason or "")
        if len(seen) == 3:
            import _thread

            _thread.interrupt_main()

    e = experiment(0.5, 0.5, upstream=slow, on_replay=watch, n_jobs=2)
    assert (e.verdict, e.reason) == ("unverified", "interrupted")
    assert len(e.results) >= 3
    assert threading.active_count() < 20


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = threading.active_count()
    experiment(1, 0, n_jobs=4)
    assert list(tmp_path.iterdir()) == []
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before + 4  # joblib keeps its threads for a while


def test_a_crash_before_the_first_request_is_told_by_its_own_error() -> None:
    def broken(ctx: Any) -> str:
        raise RuntimeError("no key found")

    with pytest.raises(AgentError, match="no key found"):
        experiment(1, 0, agent=broken)


def test_a_recording_that_counts_as_recovered_already_is_warned_about() -> None:
    e = experiment(1, 0, recording=recording_of_right())
    assert any("counts as recovered" in warning for warning in e.warnings)
    assert not any("counts as recovered" in warning for warning in experiment(1, 0).warnings)
