"""The self-check compares how the agent itself ended, too: exit status, output, return value."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.cassette import Cassette
from afnb.core.ending import FIELD, Ending, compare_endings, ending, recorded_ending, with_ending
from afnb.core.matching import Matching
from afnb.experiments.agents import AgentResult, Command, Function
from afnb.io.conversation import Conversation
from afnb.io.formats.cassette import read_cassette, schema, write_cassette
from afnb.io.record import Recorder
from afnb.io.redact import Redaction
from afnb.io.simulated import SimulatedUpstream

PROGRAM = """
import json, os, sys, time, urllib.request
body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "go"}]}).encode()
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, body, {"content-type": "application/json"})
said = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
LAST
"""


def says(conversation: Conversation, rng: Any) -> str:
    return "the answer"


def program(folder: Path, last: str, name: str = "agent.py") -> Command:
    path = folder / name
    path.write_text(PROGRAM.replace("LAST", last))
    return Command([sys.executable, str(path)])


def recorded(folder: Path, agent: Any, **options: Any) -> Cassette:
    out = folder / "run.json"
    done = afnb.record(agent, SimulatedUpstream(says), out, **options)
    assert done.path is not None, done.agent
    return read_cassette(out)


def tried(bad: Cassette, agent: Any) -> Any:
    return afnb.what_if(
        bad,
        afnb.Edit(0, "the better answer"),
        agent=agent,
        upstream=SimulatedUpstream(says),
        oracle=lambda run: "better" in str(run.answer),
        progress=False,
    )


def ask(ctx: Any) -> str:
    body = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
    reply = ctx.http_client("httpx").post("/v1/chat/completions", json=body).json()
    return str(reply["choices"][0]["message"]["content"])


def test_the_end_of_a_command_is_recorded(tmp_path: Path) -> None:
    found = recorded(tmp_path, program(tmp_path, "print('done:', said); sys.exit(3)"))
    kept = {"version": 1, "kind": "command", "status": "crashed", "exit_status": 3}
    assert found.attrs[FIELD] == {**kept, "stdout": "done: the answer\n"}


def test_what_is_written_conforms_to_the_schema(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    recorded(tmp_path, program(tmp_path, "print(said)"))
    written = json.loads((tmp_path / "run.json").read_text())
    jsonschema.validate(written, schema())
    written[FIELD]["exit_status"] = "zero"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(written, schema())


def test_going_on_with_a_recording_forgets_the_earlier_end(tmp_path: Path) -> None:
    recorded(tmp_path, ask)
    with Recorder(tmp_path / "run.json", SimulatedUpstream(says), append=True) as recorder:
        ask(recorder)
    assert recorded_ending(read_cassette(tmp_path / "run.json")) is None


def test_the_same_end_is_faithful_and_said_so(tmp_path: Path) -> None:
    agent = program(tmp_path, "print('done:', said); sys.exit(3)")
    bad = recorded(tmp_path, agent)
    again = afnb.replay(bad, agent=agent)
    assert again.faithful
    assert "same answer, same exit status, same output" in again.fidelity.sentence()
    assert again.recording.attrs[FIELD] == bad.attrs[FIELD]


def test_another_exit_status_is_no_faithful_replay_and_verifies_nothing(tmp_path: Path) -> None:
    bad = recorded(tmp_path, program(tmp_path, "print(said)"))
    now = program(tmp_path, "print(said); sys.exit(7)", "now.py")
    again = afnb.replay(bad, agent=now)
    assert not again.faithful
    assert "exit status differs: recorded 0, now 7" in again.to_text()
    assert again.to_json()["ending"][0]["state"] == "differs"
    found = tried(bad, now)
    assert found.label == "Unverified"
    assert found.replays.num_rows == 0
    assert "exit status differs: recorded 0, now 7" in found.reason


def test_an_output_that_has_changed_since_is_refused_with_both_sides(tmp_path: Path) -> None:
    bad = recorded(tmp_path, program(tmp_path, "print('paid', said)"))
    now = program(tmp_path, "print('refused', said)", "now.py")
    found = tried(bad, now)
    assert found.label == "Unverified"
    assert found.replays.num_rows == 0
    assert 'output differs: recorded "paid the answer\\n", now "refused the answer\\n"' in found.reason


def test_an_output_that_varies_by_itself_is_a_warning(tmp_path: Path) -> None:
    agent = program(tmp_path, "print(said, time.time_ns())")
    bad = recorded(tmp_path, agent)
    again = afnb.replay(bad, agent=agent)
    assert again.faithful
    assert [part.state for part in again.ending] == ["same", "varies"]
    found = tried(bad, agent)
    assert found.label == "verified", found.to_text()
    assert any("the agent's output differs" in warning for warning in found.warnings)


def test_patterns_forgive_in_the_output_as_in_requests(tmp_path: Path) -> None:
    bad = recorded(tmp_path, program(tmp_path, "print(said, '2026-01-01')"))
    now = program(tmp_path, "print(said, '2026-03-05')", "now.py")
    assert not afnb.replay(bad, agent=now).faithful
    assert afnb.replay(bad, agent=now, matching=Matching().replacing("dates")).faithful


def test_a_function_is_compared_by_what_it_returns(tmp_path: Path) -> None:
    bad = recorded(tmp_path, lambda ctx: {"said": ask(ctx), "steps": [1, 2]})
    assert bad.attrs[FIELD]["value"] == {"said": "the answer", "steps": [1, 2]}
    assert afnb.replay(bad, agent=lambda ctx: {"said": ask(ctx), "steps": [1, 2]}).faithful
    other = afnb.replay(bad, agent=lambda ctx: {"said": ask(ctx), "steps": [1, 3]})
    assert "return value differs: recorded steps[1] = 2, now steps[1] = 3" in other.to_text()
    varying = afnb.replay(bad, agent=lambda ctx: {"said": ask(ctx), "steps": [1, time.time_ns()]})
    assert varying.faithful
    assert varying.ending[1].state == "varies"


def test_a_function_that_raises_now_is_no_faithful_replay(tmp_path: Path) -> None:
    bad = recorded(tmp_path, ask)

    def now(ctx: Any) -> str:
        ask(ctx)
        raise KeyError("gone")

    found = afnb.replay(bad, agent=now)
    assert not found.faithful
    assert "end differs: recorded finished, now crashed" in found.to_text()


def test_old_recordings_replay_and_say_that_the_end_is_not_known(tmp_path: Path) -> None:
    bad = with_ending(recorded(tmp_path, ask), None)
    again = afnb.replay(bad, agent=ask)
    assert again.faithful
    assert "how the agent ended is not recorded" in again.fidelity.sentence()


@pytest.mark.parametrize("value", [None, 7, {"version": 2, "kind": "command"}, {"version": 1, "kind": "x"}])
def test_what_cannot_be_read_says_nothing(value: Any) -> None:
    assert recorded_ending(Cassette("c", attrs={FIELD: value})) is None


def test_redacted_as_the_rest_and_compared_redacted(tmp_path: Path) -> None:
    hide = Redaction(patterns=("ann@[a-z.]+",))
    agent = program(tmp_path, "print(said, 'ann@example.org', 'sk-abcdefghijklmnop12345')")
    bad = recorded(tmp_path, agent, redaction=hide)
    text = (tmp_path / "run.json").read_text()
    assert "ann@example" not in text
    assert "sk-abcdef" not in text
    assert afnb.replay(bad, agent=agent).ending[1].state == "same"


def test_a_long_output_is_kept_as_its_digest() -> None:
    long = ending("command", "finished", 0, "x" * 20_000)
    assert long.to_json().keys() == {"version", "kind", "status", "exit_status", "blake2b", "size"}
    assert compare_endings(long, long)[1].state == "same"
    other = ending("command", "finished", 0, "x" * 19_999 + "y")
    part = compare_endings(long, other)[1]
    assert part.state == "differs"
    assert "20000 characters of digest" in part.recorded


def test_a_value_that_is_no_json_is_compared_by_its_repr_without_addresses() -> None:
    one = AgentResult("finished", opaque="<Thing object at 0x7f00>").ending()
    two = AgentResult("finished", opaque="<Thing object at 0x7f11>").ending()
    assert one == two
    assert one != AgentResult("finished", opaque="<Other object at 0x7f11>").ending()


def test_a_recorder_keeps_what_it_is_told(tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    with Recorder(out, SimulatedUpstream(says)) as recorder:
        recorder.returned(ask(recorder))
    assert recorded_ending(read_cassette(out)) == Ending("function", "finished", said="the answer")
    assert afnb.replay(out, agent=Function(ask)).faithful
    write_cassette(with_ending(read_cassette(out), None), tmp_path / "none.json")
    assert FIELD not in (tmp_path / "none.json").read_text()


def test_an_agent_that_was_ended_is_not_compared() -> None:
    recorded = Ending("command", "timeout", -15)
    assert compare_endings(recorded, Ending("command", "finished", 0, ""))[0].state == "unknown"
