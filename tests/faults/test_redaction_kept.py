"""What was taken out of a recording stays out of everything that is written of it later."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.cassette import Cassette, Request, Response
from afnb.io.formats.cassette import write_cassette

from .made import CHAT, ask, said

SECRET = re.compile(r"geheim-\d+")


def agent(ctx: Any) -> str:
    """Says secrets, hears secrets, and answers with one."""
    text = ""
    with ctx.http_client("httpx") as http_client:
        for turn in range(3):
            body = ask(f"turn {turn}: geheim-{turn}", user_field={"ssn": f"geheim-9{turn}"}).body
            answer = http_client.post(CHAT, content=body).json()
            text = answer["choices"][0]["message"]["content"]
    return text


def provider(request: Request) -> Response:
    number = SECRET.search(request.body.decode())
    return said(f"it is {number[0] if number else 'hidden'}, and geheim-77")


@pytest.fixture
def redacted(tmp_path: Path) -> Cassette:
    hide = afnb.Redaction(("user_field.ssn",), (SECRET.pattern,))
    found = afnb.record(afnb.Function(agent), provider, tmp_path / "bad.json", redaction=hide, say=None)
    assert len(found.cassette) == 3
    return found.cassette


def leaks(folder: Path) -> list[tuple[str, str]]:
    return [
        (path.name, match[0].decode())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for match in re.finditer(rb"geheim-\d+", path.read_bytes())
    ]


def test_saved_converted_and_replayed_copies_hold_nothing_of_it(redacted: Cassette, tmp_path: Path) -> None:
    again = afnb.replay(redacted, agent=agent)
    assert again.faithful, again.to_text()
    write_cassette(again.recording, tmp_path / "again.json")
    branch = afnb.replay(redacted, agent=agent, upstream=provider, serve_through=0)
    assert branch.report.live == 2
    write_cassette(branch.recording, tmp_path / "branch.json")
    for name in ("bad", "branch"):
        afnb.convert(str(tmp_path / f"{name}.json"), str(tmp_path / f"{name}.yaml"))
        afnb.convert(str(tmp_path / f"{name}.yaml"), str(tmp_path / f"{name}-back.json"))
    kept = afnb.load(tmp_path / "branch.json")
    assert isinstance(kept, Cassette)
    assert kept.attrs["redaction"]["paths"] == ["user_field.ssn"]
    assert afnb.replay(kept, agent=agent).report.served == 3
    assert leaks(tmp_path) == []


def test_experiments_their_ledger_reports_and_notebook_state_hold_nothing_of_it(
    redacted: Cassette, tmp_path: Path
) -> None:
    word = "geheim-" + "77"  # oracles judge what the agent really said
    shared: dict[str, Any] = {
        "agent": afnb.Function(agent),
        "upstream": provider,
        "oracle": afnb.Outcome(lambda run: run.answer.endswith(word), name="ends with the word"),
        "progress": False,
        "consensus": afnb.MajorityConsensus(n=3),
    }
    e = afnb.what_if(redacted, afnb.Edit(0, "other"), ledger=tmp_path / "ledger", **shared)
    assert set(e.replays["recovery"].to_pylist()) == {"recovered"}
    (tmp_path / "card.html").write_text(e._repr_html_())
    (tmp_path / "card.txt").write_text(e.to_text())
    (tmp_path / "result.json").write_text(json.dumps(e.to_json()))
    e.replays.to_pandas().to_csv(tmp_path / "replays.csv")
    assert leaks(tmp_path) == []


def test_the_state_of_a_notebook_holds_nothing_of_it(redacted: Cassette, tmp_path: Path) -> None:
    embed = pytest.importorskip("ipywidgets.embed")
    explorer = afnb.explore(redacted)
    state = json.dumps(embed.dependency_state([explorer.widget], drop_defaults=False), default=str)
    assert "REDACTED" in state
    (tmp_path / "state.json").write_text(state)
    explorer.report(tmp_path / "explored.html")
    assert leaks(tmp_path) == []
