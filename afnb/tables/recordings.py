"""Recordings as tables: one row a run, an exchange, a step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from afnb.core.cassette import Cassette, Exchange, header
from afnb.core.matching import mask_query
from afnb.core.providers import is_model_request, provider_error, provider_of, read_answer
from afnb.core.run import Run
from afnb.core.steps import attempts, run_from_cassette
from afnb.errors import ParameterError
from afnb.tables.build import build

if TYPE_CHECKING:
    import pyarrow as pa

DELAYS = ("retry-after-ms", "retry-after")


def exchanges(*recordings: Cassette) -> pa.Table:
    """The HTTP exchanges of recordings, failed attempts included: one row each (table ``exchanges``).

    A status alone does not say how an exchange ended: an overload that a provider reports inside a success
    is a ``provider_error`` here, and an answer that stopped early is ``incomplete``.

    Parameters
    ----------
    recordings
        Cassettes, as ``load`` and ``record`` give them.

    Returns
    -------
    pyarrow.Table
        In recorded order. Bodies are bytes, exactly as recorded.

    Raises
    ------
    ParameterError
        Something else is given.

    Examples
    --------
    >>> from afnb.core.cassette import Request, Response
    >>> ask = Request("POST", "/v1/messages", body=b'{"messages": []}')
    >>> both = (Exchange(0, ask, Response(429)), Exchange(1, ask, Response(200, body=b'{"content": []}')))
    >>> table = exchanges(Cassette("x", both))
    >>> table["result"].to_pylist(), table["attempt_of"].to_pylist()
    (['http_error', 'answer'], [1, None])
    """
    rows: list[dict[str, Any]] = []
    for one in recordings:
        if not isinstance(one, Cassette):
            raise ParameterError(f"exchanges takes recordings of HTTP exchanges, not {type(one).__name__}")
        rows.extend(_exchange_rows(one))
    return build("exchanges", rows)


def _exchange_rows(cassette: Cassette) -> Iterator[dict[str, Any]]:
    again = attempts(cassette)
    sources = cassette.attrs.get("sources")
    said = sources if isinstance(sources, list) and len(sources) == len(cassette) else [None] * len(cassette)
    for exchange, source in zip(cassette.exchanges, said, strict=True):
        request, response = exchange.request, exchange.response
        delay = next((v for name in DELAYS if (v := header(response.headers, name)) is not None), None)
        yield {
            "cassette": cassette.id,
            "exchange": exchange.idx,
            "upstream": exchange.upstream,
            "method": request.method,
            "path": mask_query(request.path),
            "status": response.status,
            **_told(exchange),
            "attempt_of": again.get(exchange.idx),
            "source": None if source is None else str(source),
            "delay": delay,
            "request_bytes": len(request.body),
            "response_bytes": len(response.body),
            "streamed": response.chunks is not None,
            "t_start": exchange.t_start,
            "t_end": exchange.t_end,
            "request_body": request.body,
            "response_body": response.body,
        }


def _told(exchange: Exchange) -> dict[str, Any]:
    """How an exchange ended, by what its bodies say."""
    request, response = exchange.request, exchange.response
    of_model = is_model_request(request)
    answer = read_answer(request, response) if of_model else None
    error = provider_error(request, response) if of_model else None
    if answer is not None:
        error = answer.error
    notes = [] if answer is None else [note.code for note in answer.notes]
    if response.status >= 400:
        result = "http_error"
    elif error is not None:
        result = "provider_error"
    else:
        result = "other" if answer is None else "answer"
    return {
        "result": result,
        "error": error,
        "provider": provider_of(request) if of_model else None,
        "incomplete": response.incomplete or (answer is not None and not answer.complete),
        "notes": notes,
    }


def steps(*runs: Cassette | Run) -> pa.Table:
    """The steps of runs: one row each (table ``steps``).

    Parameters
    ----------
    runs
        Runs, or recordings, whose steps are worked out.

    Returns
    -------
    pyarrow.Table
        In order. ``inputs`` and ``outputs`` are JSON text; null where the source had none.

    Raises
    ------
    ParameterError
        Something else is given.

    Examples
    --------
    >>> from afnb.core.run import Step
    >>> steps(Run("r", (Step(0, "tool", "search", inputs={"q": 1}),))).select(["name", "inputs"]).to_pylist()
    [{'name': 'search', 'inputs': '{"q":1}'}]
    """
    return build("steps", [row for run in map(_run, runs) for row in _step_rows(run)])


def _step_rows(run: Run) -> Iterator[dict[str, Any]]:
    for number, step in enumerate(run.steps):
        yield {
            "run": run.id,
            "step": number,
            "kind": step.kind,
            "name": step.name,
            "exchange": step.exchange,
            "result_exchange": step.result_exchange,
            "seq": step.seq,
            "parent_idx": step.parent_idx,
            "call_id": step.call_id,
            "inputs": step.inputs,
            "outputs": step.outputs,
            "t_start": step.t_start,
            "t_end": step.t_end,
        }


def runs(*found: Cassette | Run) -> pa.Table:
    """Runs, one row each (table ``runs``): how many steps, what they were to do, how they ended.

    Parameters
    ----------
    found
        Runs, or recordings.

    Returns
    -------
    pyarrow.Table
        In the order given.

    Raises
    ------
    ParameterError
        Something else is given.

    Examples
    --------
    >>> runs(Run("r", outcome="fail")).select(["run", "outcome", "steps"]).to_pylist()
    [{'run': 'r', 'outcome': 'fail', 'steps': 0}]
    """
    rows = [
        {
            "run": run.id,
            "task": run.task,
            "outcome": run.outcome,
            "steps": len(run),
            "source": run.source,
            "warnings": [{"code": one.code, "message": one.message} for one in run.warnings],
        }
        for run in map(_run, found)
    ]
    return build("runs", rows)


def _run(one: Cassette | Run) -> Run:
    if isinstance(one, Run):
        return one
    if isinstance(one, Cassette):
        return run_from_cassette(one)
    raise ParameterError(f"expected a run or a recording, found {type(one).__name__}")
