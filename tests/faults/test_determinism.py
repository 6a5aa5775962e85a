"""A replay, a branch and what may run again mean what their user thinks."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.arm import AnswerPatch, Arm
from afnb.core.cassette import Cassette, Request, Response
from afnb.core.providers import conversation_key
from afnb.core.tape import Tape
from afnb.io.formats.cassette import read_cassette, write_cassette
from afnb.io.serve import Forward, Serve, Session

from .made import ask, asking, recording, said, text_of


def talk(*texts: str) -> list[dict[str, Any]]:
    """The messages of a conversation in which these answers were given."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "start"}]
    for n, text in enumerate(texts):
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"go on {n}"}]
    return messages


def turns(count: int) -> Cassette:
    """A conversation of that many answers ``t0``, ``t1``, ..."""
    return recording(*((ask(*talk(*(f"t{m}" for m in range(n)))), said(f"t{n}")) for n in range(count)))


def patched(made: Cassette, exchange: int, text: str) -> Arm:
    request = made.exchanges[exchange].request
    key = conversation_key(request)
    return Arm("patch", (AnswerPatch(exchange, exchange, exchange, key, said(text)),), exchange)


def go_through(session: Session, count: int) -> list[str]:
    """Converse: each next request holds the answers so far."""
    answers: list[str] = []
    for _ in range(count):
        turn = session.decide(ask(*talk(*answers)))
        assert isinstance(turn, Serve | Forward), turn
        if isinstance(turn, Forward):
            response = said(f"live{len(answers)}")
            session.complete(turn, response)
        else:
            response = turn.response
        answers.append(text_of(response))
    return answers


def test_ids_drawn_from_one_seed_may_shift_and_still_match() -> None:
    """One more draw before a step changes every later id; ids of calls are numbered, not compared."""

    def requests(extra: int) -> list[Request]:
        rng = random.Random(7)
        for _ in range(extra):
            rng.random()
        made, history = [], [{"role": "user", "content": "go"}]
        for n in range(3):
            made.append(ask(*history))
            ident = f"call_{rng.getrandbits(64):x}"
            function = {"name": "look", "arguments": json.dumps({"n": n})}
            call = {"id": ident, "type": "function", "function": function}
            history = [
                *history,
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": ident, "content": str(n)},
            ]  # type: ignore[list-item]
        return made

    recorded = recording(*((request, said(str(n))) for n, request in enumerate(requests(0))))
    found = afnb.replay(recorded, agent=asking(requests(1)))
    assert (found.report.served, found.report.missed) == (3, 0)
    assert dict(found.report.rules)["tool_call_ids"] == 2
    assert "tool_call_ids" in found.to_text()


def test_a_traceback_in_a_prompt_is_a_miss_that_offers_the_rules_which_forgive_it() -> None:
    def error(path: str, line: int, address: str, took: str) -> str:
        return f'File "{path}", line {line}, in run\n<Obj at {address}> took {took} s'

    then = ask(error("/tmp/run_8f3/x.py", 12, "0x7f00aa11bb22", "0.31"))
    now = ask(error("/tmp/run_c01/x.py", 14, "0x7f99cc33dd44", "0.27"))
    made = recording((then, said("ok")))
    strict = afnb.replay(made, agent=asking([now]))
    missed = strict.report.first_miss
    assert missed is not None
    assert ("run_8f3" in str(missed.recorded), "run_c01" in str(missed.asked)) == (True, True)
    assert set(missed.suggestions) == {"paths", "line_numbers", "hex_addresses", "durations"}
    assert f"--match {','.join(missed.suggestions)}" in strict.to_text().replace("\n", " ")
    forgiving = afnb.Matching().replacing(*missed.suggestions)
    assert afnb.replay(made, agent=asking([now]), matching=forgiving).report.served == 1


def test_nothing_recorded_after_the_patch_is_served_and_every_answer_says_where_it_came_from() -> None:
    """After the patch the agent asks what it asked in the recording, byte for byte, and it goes live."""
    made = turns(6)
    session = Session(Tape(made), patched(made, 3, "t3"))
    assert go_through(session, 6) == ["t0", "t1", "t2", "t3", "live4", "live5"]
    again = session.cassette()
    expected = ["tape:0", "tape:1", "tape:2", "patch:3", "live", "live"]
    assert afnb.exchanges(again)["source"].to_pylist() == expected
    screen = Session(Tape(made), Arm("patch", patched(made, 3, "t3").patches, 3, tail="tape"))
    assert go_through(screen, 6) == [f"t{n}" for n in range(6)]
    assert afnb.exchanges(screen.cassette())["source"].to_pylist()[4:] == ["tape:4", "tape:5"]


def test_a_branch_of_a_branch_keeps_exactly_what_came_before_its_point(tmp_path: Path) -> None:
    made = turns(6)
    first = Session(Tape(made), patched(made, 2, "other"))
    go_through(first, 6)
    write_cassette(first.cassette(), tmp_path / "branch.json")
    branch = read_cassette(tmp_path / "branch.json")
    second = Session(Tape(branch), patched(branch, 4, "third way"))
    assert go_through(second, 6) == ["t0", "t1", "other", "live3", "third way", "live5"]
    assert afnb.exchanges(second.cassette())["source"].to_pylist() == [
        "tape:0",
        "tape:1",
        "tape:2",
        "tape:3",
        "patch:4",
        "live",
    ]


def test_what_would_run_again_is_said_before_and_needs_consent() -> None:
    mail = {"type": "function", "function": {"name": "send_email", "parameters": {}}}
    messages: list[Any] = ["start"]
    pairs: list[tuple[Request, Response]] = []
    for n in range(9):
        calls = (("c", "send_email", {"to": "ann"}),) if n == 5 else (("c", "note", {"n": n}),)
        answer = said("", *calls) if n < 8 else said("done")
        pairs.append((ask(*messages, tools=[mail]), answer))
        message = json.loads(answer.body)["choices"][0]["message"]
        messages += [message, {"role": "tool", "tool_call_id": "c", "content": "sent"}]
    made = recording(*pairs)
    started: list[int] = []
    experiment: dict[str, Any] = {
        "agent": lambda ctx: started.append(1),
        "upstream": [],
        "oracle": lambda run: True,
        "progress": False,
    }
    change = afnb.Edit(4, {"text": "", "tool_calls": [{"name": "note", "arguments": {"n": 9}}]})
    with pytest.raises(
        afnb.ParameterError, match="would run these tools of the agent again: note, send_email"
    ):
        afnb.what_if(made, change, **experiment)
    assert started == []
    said_before = afnb.plan(made, intervention=change, allow_tools=["note"])
    text = " ".join(said_before.to_text().split())
    assert "from the tape up to 3 of 9 exchanges" in text
    assert "changed step 4" in text
    assert "send_email 1 yes would run again, not allowed" in text
    assert "note 7 no runs again, allowed" in text
    assert "live calls" in text


def test_the_first_divergence_is_shown_with_what_was_recorded_and_what_was_asked() -> None:
    made = turns(4)
    requests = [exchange.request for exchange in made.exchanges]
    call = {"id": "c", "type": "function", "function": {"name": "refund", "arguments": "{}"}}
    other = ask(*talk("t0", "t1"), {"role": "assistant", "tool_calls": [call]})
    found = afnb.replay(made, agent=asking([*requests[:3], other]))
    (row,) = found.misses.to_pylist()
    assert (row["request"], found.report.served) == (3, 3)
    assert row["nearest"] is not None
    assert (bool(row["recorded"]), "refund" in row["asked"]) == (True, True)
    for shown in (found.to_text(), found._repr_html_()):
        assert "First miss" in shown
        assert "refund" in shown
        assert "nearest exchange" in shown
