"""Steps of an event log: its model and tool calls in log order."""

from __future__ import annotations

from typing import Any

from afnb.core import events as ev
from afnb.core.cassette import Request, Response
from afnb.core.eventlog import EventLog
from afnb.core.instants import Instant
from afnb.core.jsonvalue import MISSING, Json, JsonOrMissing, dumps
from afnb.core.providers import outputs_of, read_answer
from afnb.core.run import Run, Step, Warn

SHAPES = (
    ("/v1/chat/completions", b'{"messages":[]}'),
    ("/v1/messages", b'{"messages":[]}'),
    ("/v1/responses", b'{"model":"unknown","input":""}'),
)
"""Path and least body of the wire shapes that a recorded response is tried as: a log keeps no path."""


def run_from_log(log: EventLog) -> Run:
    """The run that an event log recorded.

    Parameters
    ----------
    log
        One run's events, whole or not.

    Returns
    -------
    Run
        One llm step per model call and one tool step per tool call, numbered in log order; ``seq`` is
        the intent's. Graph nodes stand in ``attrs["node"]`` and are no steps, nor are clocks, random
        bits and suspensions. A call without completion has no outputs. ``answer`` is what the run
        completed with, else the last llm text without tool calls.

    Examples
    --------
    >>> run_from_log(EventLog(None)).steps
    ()
    """
    steps: list[Step] = []
    nodes: list[str] = []
    open_call: ev.ModelCallRequested | ev.ToolCallRequested | None = None
    started: Instant | None = None
    answer: Json = None
    completed = False
    warnings: list[Warn] = list(log.warnings)
    for envelope in log.envelopes:
        event = envelope.event
        if isinstance(event, ev.NodeEntered):
            nodes.append(event.node)
        elif isinstance(event, ev.NodeExited) and event.node in nodes:
            nodes.remove(event.node)
        elif isinstance(event, ev.ModelCallRequested | ev.ToolCallRequested):
            open_call, started = event, envelope.recorded_at
            steps.append(_step(len(steps), envelope, nodes))
        elif isinstance(event, ev.ModelCallCompleted) and isinstance(open_call, ev.ModelCallRequested):
            steps[-1] = _answered(steps[-1], open_call, event, started, envelope.recorded_at)
            said = steps[-1].outputs
            if isinstance(said, dict) and said.get("text") and not said.get("tool_calls"):
                answer = said["text"] if not completed else answer
            open_call = None
        elif isinstance(event, ev.ToolCallCompleted) and isinstance(open_call, ev.ToolCallRequested):
            steps[-1] = _ended(steps[-1], event.output, started, envelope.recorded_at, {})
            open_call = None
        elif isinstance(event, ev.RunCompleted):
            answer, completed = event.output, True
        elif isinstance(event, ev.RunFailed):
            warnings.append(Warn("run_failed", f"the run failed: {event.error}"))
    return Run(
        id=log.id or "empty log",
        steps=tuple(steps),
        answer=answer,
        warnings=tuple(warnings),
        source=log.source,
    )


def _step(index: int, envelope: ev.Envelope, nodes: list[str]) -> Step:
    event = envelope.event
    attrs: dict[str, Any] = {"node": nodes[-1]} if nodes else {}
    if isinstance(event, ev.ModelCallRequested):
        inputs = event.request_body
        return Step(index, "llm", "llm", inputs=inputs, attrs=attrs, seq=envelope.seq)
    assert isinstance(event, ev.ToolCallRequested)
    attrs["effect"] = event.effect
    return Step(index, "tool", event.tool, inputs=event.input, attrs=attrs, seq=envelope.seq)


def _answered(
    step: Step,
    asked: ev.ModelCallRequested,
    given: ev.ModelCallCompleted,
    started: Instant | None,
    ended: Instant,
) -> Step:
    usage = {"input_tokens": given.usage.input_tokens, "output_tokens": given.usage.output_tokens}
    outputs = answer_outputs(asked.request_body, given.response)
    return _ended(step, outputs, started, ended, {"usage": usage})


def _ended(step: Step, outputs: Json, started: Instant | None, ended: Instant, attrs: dict[str, Any]) -> Step:
    return Step(
        step.idx,
        step.kind,
        step.name,
        inputs=step.inputs,
        outputs=outputs,
        attrs={**step.attrs, **attrs},
        t_start=None if started is None else str(started),
        t_end=str(ended),
        seq=step.seq,
    )


def answer_outputs(request_body: JsonOrMissing, response: Json) -> Json:
    """``{"text", "tool_calls"}`` of a recorded model response; the response itself if its shape is unknown.

    Examples
    --------
    >>> answer_outputs(MISSING, {"choices": [{"message": {"role": "assistant", "content": "hi"}}]})
    {'text': 'hi', 'tool_calls': []}
    >>> answer_outputs(MISSING, "hi")
    'hi'
    """
    if not isinstance(response, dict):
        return response
    found = answer_request(request_body, response)
    if found is None:
        return response
    read = read_answer(*found)
    return response if read is None else outputs_of(read)


def answer_request(request_body: JsonOrMissing, response: Json) -> tuple[Request, Response] | None:
    """A request and a response of the wire shape that a recorded response has; None if it has none known.

    Examples
    --------
    >>> found = answer_request(MISSING, {"content": [{"type": "text", "text": "hi"}], "role": "assistant"})
    >>> found[0].path
    '/v1/messages'
    """
    body = dumps(response).encode("utf-8", "surrogatepass")
    answer = Response(200, (("content-type", "application/json"),), body)
    for path, least in SHAPES:
        asked = least if request_body is MISSING else dumps(request_body).encode("utf-8", "surrogatepass")
        for content in (asked, least):
            request = Request("POST", path, body=content)
            read = read_answer(request, answer)
            if read is not None and (read.text or read.tool_calls):
                return request, answer
    return None


def call_seqs(log: EventLog) -> list[tuple[int, int | None]]:
    """Seq of the intent and of the completion of every call, in log order.

    Examples
    --------
    >>> call_seqs(EventLog(None))
    []
    """
    found: list[tuple[int, int | None]] = []
    for envelope in log.envelopes:
        event = envelope.event
        if isinstance(event, ev.ModelCallRequested | ev.ToolCallRequested):
            found.append((envelope.seq, None))
        elif (
            isinstance(event, ev.ModelCallCompleted | ev.ToolCallCompleted) and found and found[-1][1] is None
        ):
            found[-1] = (found[-1][0], envelope.seq)
    return found
