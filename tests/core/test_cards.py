"""Cards of cassettes and runs."""

from __future__ import annotations

from afnb.core.cassette import Cassette, Exchange, Request, Response
from afnb.core.run import Run, Step, Warn


def cassette() -> Cassette:
    request = Request("POST", "/v1/messages", body=b'{"messages":[{"role":"user","content":"go"}]}')
    call = b'{"type":"tool_use","id":"a","name":"find","input":{"q":1}}'
    said = b'{"content":[{"type":"text","text":"look"},' + call + b"]}"
    return Cassette("c", (Exchange(0, request, Response(200, body=said)),), task="find it", outcome="fail")


def test_a_cassette_shows_its_steps_and_not_its_bytes() -> None:
    text = cassette().to_text()
    assert "Recording c" in text
    assert "fail" in text
    assert 'look → find({"q":1})' in text
    assert "(nothing recorded)" in text
    assert "b'" not in repr(cassette())
    assert len(repr(cassette()).splitlines()) <= 6


def test_a_run_shows_steps_and_warnings_and_never_guesses_an_outcome() -> None:
    steps = tuple(Step(i, "tool", "t", outputs={"i": i}) for i in range(60))
    page = Run("r", steps, answer={"n": 2}, warnings=(Warn("w", "odd field"),)).page()
    assert page.badge is not None
    assert page.badge.text == "outcome unknown"
    text = Run("r", steps, warnings=(Warn("w", "odd field"),)).to_text()
    assert "odd field" in text
    assert "60" in text
    assert "no steps" in Run("empty").to_text()


def test_an_empty_recording_is_still_true() -> None:
    assert Cassette("x")
    assert Run("x")
