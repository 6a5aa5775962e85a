"""Real SDK agents recorded through the loopback proxy: what reaches the provider, the agent and the disk."""

from __future__ import annotations

import os
import random
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from afnb.core.tape import Tape
from afnb.experiments.agents import Command, Function
from afnb.experiments.record import Recorded, record
from afnb.io.answers import Call, Say
from afnb.io.conversation import Conversation
from afnb.io.formats.cassette import read_cassette
from afnb.io.serve import Session
from afnb.testing.provider import FakeProvider, Fault

SECRETS = {
    "authorization": "Bearer SECRET-authorization",
    "x-api-key": "SECRET-x-api-key",
    "x-goog-api-key": "SECRET-goog",
    "api-key": "SECRET-azure",
    "cookie": "session=SECRET-cookie",
    "x-quite-made-up": "SECRET-made-up",
}

OPENAI = """
import os, sys
from openai import OpenAI
headers = dict(item.split("=", 1) for item in os.environ["HEADERS"].split("|"))
client = OpenAI(api_key="SECRET-openai-key", default_headers=headers, max_retries=2)
messages = [{"role": "user", "content": "where is order 7?"}]
tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
for turn in range(5):
    said = client.chat.completions.create(
        model="m", messages=messages, tools=tools, extra_query={"key": "SECRET-query"}).choices[0].message
    if not said.tool_calls:
        break
    messages.append(said)
    messages += [{"role": "tool", "tool_call_id": c.id, "content": "in Hamburg"} for c in said.tool_calls]
print(said.content)
sys.exit(int(os.environ.get("STATUS", "0")))
"""

ANTHROPIC = """
import os, sys
from anthropic import Anthropic
headers = dict(item.split("=", 1) for item in os.environ["HEADERS"].split("|"))
client = Anthropic(api_key="SECRET-anthropic-key", default_headers=headers, max_retries=2)
messages = [{"role": "user", "content": "where is order 7?"}]
tools = [{"name": "look", "input_schema": {"type": "object"}}]
for turn in range(5):
    with client.messages.stream(model="m", max_tokens=99, messages=messages, tools=tools) as stream:
        said = stream.get_final_message()
    calls = [block for block in said.content if block.type == "tool_use"]
    if not calls:
        break
    results = [{"type": "tool_result", "tool_use_id": c.id, "content": "in Hamburg"} for c in calls]
    messages += [{"role": "assistant", "content": said.content}, {"role": "user", "content": results}]
print(said.content[0].text)
sys.exit(int(os.environ.get("STATUS", "0")))
"""

SDKS = {"openai": (OPENAI, "OPENAI_BASE_URL"), "anthropic": (ANTHROPIC, "ANTHROPIC_BASE_URL")}


def policy(talk: Conversation, rng: random.Random) -> Any:
    if talk.results:
        return f"It is {talk.result_of('look')}."
    return Say("", (Call("look", {"order": 7}),))


@pytest.fixture(params=sorted(SDKS))
def sdk(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return str(request.param)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that everything written by a test goes to, temporary files included."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def agent_of(sdk: str, **env: str) -> Command:
    code, variable = SDKS[sdk]
    headers = "|".join(f"{name}={value}" for name, value in SECRETS.items())
    return Command(["python", "-c", code], base_url_env=variable, env={"HEADERS": headers, **env})


def files(place: Path) -> Iterator[tuple[Path, bytes]]:
    for path in place.rglob("*"):
        if path.is_file():
            yield path, path.read_bytes()


def replayed(done: Recorded, agent: Command, workdir: Path) -> tuple[Session, Any]:
    assert done.path is not None
    session = Session(Tape(read_cassette(done.path)), live=False)
    return session, agent.run(session, None, seed=0, workdir=workdir)


def test_a_recording_replays_without_the_provider_and_holds_no_credential(sdk: str, place: Path) -> None:
    agent, before = agent_of(sdk, STATUS="5"), dict(os.environ)
    cookies = (("set-cookie", "SECRET-set-cookie=1"), ("x-request-id", "SECRET-response-header"))
    with FakeProvider(policy, encoding="gzip", extra_headers=cookies) as provider:
        done = record(agent, provider.url, place / "x.json")
        seen = provider.requests
    assert (done.agent.stdout, done.exit_status) == ("It is in Hamburg.\n", 5), done.agent
    assert len(done.cassette) == len(seen) == 2
    for request in seen:  # the provider was sent all of them, as the agent sent them
        sent = dict(request.headers)
        assert {name: sent[name] for name in SECRETS} == SECRETS
    for path, data in files(place):
        assert b"SECRET" not in data, path
    assert {path.name for path, _ in files(place)} == {"x.json"}
    assert dict(os.environ) == before
    session, again = replayed(done, agent, place)
    assert (again.stdout, again.exit_status) == ("It is in Hamburg.\n", 5), again
    report = session.report()
    assert (report.served, report.live, report.missed) == (2, 0, 0)


def test_no_credential_is_on_disk_while_the_agent_runs(place: Path) -> None:
    found: list[tuple[str, bool]] = []

    def agent(ctx: Any) -> None:
        client = ctx.http_client("httpx")
        for i in range(2):
            client.post(f"/v1/messages?api_key=SECRET-{i}", json={"messages": []}, headers=SECRETS)
        found.extend((path.name, b"SECRET" in data) for path, data in files(place))

    with FakeProvider(policy) as provider:
        done = record(Function(agent), provider.url, place / "x.json")
    assert len(done.cassette) == 2
    assert found == [("x.json.journal.jsonl", False)]


def test_a_proxy_in_the_environment_takes_no_loopback_traffic(
    sdk: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeProvider(policy) as proxy, FakeProvider(policy) as provider:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.setenv(name.lower(), proxy.url)
        monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,localhost")
        done = record(agent_of(sdk), provider.url, place / "x.json")
        assert proxy.requests == []
    assert done.agent.stdout == "It is in Hamburg.\n", done.agent


def test_an_error_that_the_sdk_asks_again_is_recorded_and_replays(sdk: str, place: Path) -> None:
    agent, status = agent_of(sdk), {"openai": 429, "anthropic": 529}[sdk]
    busy = Fault(status=status, headers=(("retry-after-ms", "1"),))
    with FakeProvider(policy, faults={0: busy}) as provider:
        done = record(agent, provider.url, place / "x.json")
    assert done.agent.stdout == "It is in Hamburg.\n", done.agent
    assert [e.response.status for e in done.cassette.exchanges] == [status, 200, 200]
    session, again = replayed(done, agent, place)
    assert again.stdout == "It is in Hamburg.\n", again
    assert (session.report().served, session.report().missed) == (3, 0)


def test_a_connection_that_breaks_is_asked_again_by_the_sdk(sdk: str, place: Path) -> None:
    with FakeProvider(policy, faults={0: Fault(drop=True), 2: Fault(cut_after=10)}) as provider:
        done = record(agent_of(sdk), provider.url, place / "x.json")
        count = len(provider.requests)
    if sdk == "openai":
        assert done.agent.stdout == "It is in Hamburg.\n", done.agent
        assert count == 4
    else:  # a stream that was cut is not asked again by the SDK: the agent sees it
        assert done.agent.status == "crashed"
    assert [e.response.incomplete for e in done.cassette.exchanges][:2] == [False, True]
    assert "got no answer" in " ".join(done.warnings)
    assert "stopped before their end" in " ".join(done.warnings)


def test_a_provider_that_is_down(sdk: str, place: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = record(agent_of(sdk), f"http://127.0.0.1:{port}", place / "x.json")
    assert done.agent.status == "crashed"
    assert "502" in str(done.agent.stderr)
    assert done.path is None
    assert "check that the provider is up" in " ".join(done.warnings)
    assert list(files(place)) == []


def test_two_providers_at_once(place: Path) -> None:
    pytest.importorskip("openai")
    pytest.importorskip("anthropic")
    code = (
        "from openai import OpenAI\nfrom anthropic import Anthropic\n"
        "ask = [{'role': 'user', 'content': 'x'}]\n"
        "one = OpenAI(api_key='k').chat.completions.create(model='m', messages=ask)\n"
        "two = Anthropic(api_key='k').messages.create(model='m', max_tokens=9, messages=ask)\n"
        "print(one.choices[0].message.content, two.content[0].text)\n"
    )
    with FakeProvider(lambda t, r: "first") as openai, FakeProvider(lambda t, r: "second") as anthropic:
        upstream = {"openai": openai.url, "anthropic": anthropic.url}
        for names in (["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"], NAMED):
            out = place / f"{len(list(files(place)))}.json"
            done = record(Command(["python", "-c", code], base_url_env=names), upstream, out)
            assert done.agent.stdout == "first second\n", done.agent
            assert [e.request.path for e in done.cassette.exchanges] == [
                "/v1/chat/completions",
                "/v1/messages",
            ]
        assert len(openai.requests) == len(anthropic.requests) == 2


NAMED = {"OPENAI_BASE_URL": "openai", "ANTHROPIC_BASE_URL": "anthropic"}
