"""Recordings as tables."""

from __future__ import annotations

import pytest

import afnb
from afnb.core.cassette import Cassette, Chunk, Exchange, Request, Response
from afnb.core.run import Run, Step
from afnb.errors import ParameterError
from afnb.tables.schemas import columns

ASK = Request("POST", "/v1/chat/completions?key=SECRET", body=b'{"messages": [{"role": "user"}]}')
SSE = (("content-type", "text/event-stream"),)
TEXT = b'data: {"choices": [{"index": 0, "delta": {"content": "hel"}}]}\n\n'
ODD = b"\xff\xfe\x00\xe9"


def cassette(*responses: Response) -> Cassette:
    return Cassette("c", tuple(Exchange(i, ASK, one) for i, one in enumerate(responses)))


def test_every_attempt_is_a_row_and_only_what_answered_is_a_step() -> None:
    answer = b'{"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "hi"}}]}'
    found = cassette(Response(429, (("retry-after", "20"),), b"{}"), Response(200, body=answer))
    table = afnb.exchanges(found)
    assert table.column_names == [column.name for column in columns("exchanges")]
    shown = table.select(["exchange", "path", "status", "result", "attempt_of", "delay"]).to_pylist()
    path = "/v1/chat/completions?key=MASKED"
    assert [tuple(row.values()) for row in shown] == [
        (0, path, 429, "http_error", 1, "20"),
        (1, path, 200, "answer", None, None),
    ]
    rows = afnb.steps(found).to_pylist()
    assert [(row["step"], row["kind"], row["exchange"]) for row in rows] == [(0, "llm", 1)]
    assert rows[0]["outputs"] == '{"text":"hi","tool_calls":[]}'


@pytest.mark.parametrize(
    ("body", "incomplete", "result", "notes", "error"),
    [
        (TEXT, True, "answer", ["incomplete"], None),
        (TEXT, False, "answer", ["incomplete"], None),
        (
            b'data: {"error": {"message": "busy", "type": "overloaded"}}\n\n',
            False,
            "provider_error",
            [],
            "overloaded: busy",
        ),
        (
            TEXT + b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n',
            False,
            "answer",
            ["no_end_marker"],
            None,
        ),
    ],
)
def test_a_success_says_in_its_body_how_it_ended(
    body: bytes, incomplete: bool, result: str, notes: list[str], error: str | None
) -> None:
    (row,) = afnb.exchanges(
        cassette(Response(200, SSE, body, (Chunk(0, body),), incomplete=incomplete))
    ).to_pylist()
    assert (row["status"], row["result"], row["error"]) == (200, result, error)
    assert row["incomplete"] is (notes == ["incomplete"])
    assert row["notes"] == str(notes).replace("'", '"')
    assert (row["streamed"], row["provider"]) == (True, "openai-chat")


def test_bytes_stay_bytes_and_gaps_stay_whole_numbers() -> None:
    table = afnb.exchanges(cassette(Response(200, body=ODD), Response(204)))
    assert table["response_body"].to_pylist() == [ODD, b""]
    frame = table.to_pandas()
    assert str(frame["attempt_of"].dtype) == "Int64"
    assert frame["response_body"][0] == ODD


def test_runs_and_steps_of_other_sources() -> None:
    run = Run("r", (Step(0, "tool", "look", outputs=None, seq=7),), task="t", outcome="fail")
    assert afnb.runs(run, cassette()).column("steps").to_pylist() == [1, 0]
    (row,) = afnb.steps(run).to_pylist()
    assert (row["inputs"], row["outputs"], row["seq"]) == (None, "null", 7)
    for function in (afnb.steps, afnb.runs, afnb.exchanges):
        assert function().num_rows == 0
        with pytest.raises(ParameterError):
            function("x")
