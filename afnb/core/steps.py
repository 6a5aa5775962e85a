"""From a cassette to a run: which exchanges are steps, and which tool steps stand in the messages.

::

    exchange answered by a model ── one llm step ── one tool step a call, its output from the first
                                                    later request that carries its result
    exchange answered 429 or 5xx, asked again ───── an attempt: no step of its own
    any other exchange ──────────────────────────── one step of kind other
    recorded tool exchange ──────────────────────── joined with the call it answers, else a tool step
    call of an MCP server or of an HTTP tool ────── likewise; the step keeps its exchange

A step is not an exchange: a tool step seen only in messages has no exchange of its own, and one
answer gives as many tool steps as it has calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from afnb.core.cassette import Cassette, Exchange, ToolExchange
from afnb.core.jsonvalue import MISSING, Json, JsonOrMissing, equal, loads
from afnb.core.linkage import Carried, Waiting
from afnb.core.mcp import same_tool
from afnb.core.providers import (
    Answer,
    Turn,
    conversation_key,
    is_model_request,
    outputs_of,
    provider_error,
    provider_of,
    read_answer,
    read_turns,
    turns_text,
)
from afnb.core.run import Run, Step, Warn
from afnb.core.toolcalls import http_tools, tool_over_http
from afnb.errors import InputError

_ASKED_AGAIN = (408, 409, 425, 429)


def attempts(cassette: Cassette) -> dict[int, int]:
    """Failed exchanges that were asked again, each with the exchange that answered in the end.

    An exchange failed if its status is 408, 409, 425, 429 or 5xx, or if a model request was answered
    with nothing but an error. Asked again means: a later exchange has the same method, path and body
    bytes, or is linked by ``attempt_of``. Where all asks failed, the last one is the answer.

    Examples
    --------
    >>> from afnb.core.cassette import Request, Response
    >>> ask = Request("POST", "/v1/messages", body=b'{"messages": []}')
    >>> answers = [Response(429), Response(503), Response(200, body=b'{"content": []}')]
    >>> attempts(Cassette("x", tuple(Exchange(i, ask, r) for i, r in enumerate(answers))))
    {0: 2, 1: 2}
    """
    groups = _same_requests(cassette)
    # only what was asked twice can be an attempt: the answers of all others need not be read for it
    failed = [e for e in cassette.exchanges if len(groups[e.idx]) > 1 and _failed(e)]
    if not failed:
        return {}
    bad = {e.idx for e in failed}
    found: dict[int, int] = {}
    for exchange in failed:
        later = [i for i in groups[exchange.idx] if i > exchange.idx]
        if later:
            found[exchange.idx] = next((i for i in later if i not in bad), later[-1])
    return found


def _failed(exchange: Exchange) -> bool:
    status = exchange.response.status
    if status in _ASKED_AGAIN or status >= 500:
        return True
    return (
        200 <= status < 300
        and is_model_request(exchange.request)
        and read_answer(exchange.request, exchange.response) is None
        and provider_error(exchange.request, exchange.response) is not None
    )


def _same_requests(cassette: Cassette) -> dict[int, list[int]]:
    """For each exchange the exchanges that ask the same, itself included."""
    group_of: dict[int, list[int]] = {}
    by_request: dict[tuple[str, str, bytes], list[int]] = {}
    for e in cassette.exchanges:
        key = (e.request.method, e.request.path, e.request.body)
        group = by_request.setdefault(key, [])
        group.append(e.idx)
        group_of[e.idx] = group
    for e in cassette.exchanges:
        other = e.attempt_of
        if other is not None and other in group_of and group_of[other] is not group_of[e.idx]:
            joined = sorted({*group_of[other], *group_of[e.idx]})
            for idx in joined:
                group_of[idx] = joined
    return group_of


def model_positions(cassette: Cassette) -> dict[int, tuple[str, int]]:
    """Every successful model exchange with its branch and its number on that branch, from 0.

    The branch is `conversation_key`: the conversations of a parallel run are counted apart.

    Examples
    --------
    >>> from afnb.core.cassette import Request, Response
    >>> ask = Request("POST", "/v1/messages", body=b'{"messages": []}')
    >>> good = Response(200, body=b'{"content": []}')
    >>> answers = [good, Response(500), good]
    >>> cassette = Cassette("x", tuple(Exchange(i, ask, r) for i, r in enumerate(answers)))
    >>> [(exchange, ordinal) for exchange, (branch, ordinal) in model_positions(cassette).items()]
    [(0, 0), (2, 1)]
    """
    counts: dict[str, int] = {}
    positions: dict[int, tuple[str, int]] = {}
    for exchange in cassette.exchanges:
        if read_answer(exchange.request, exchange.response) is None:
            continue
        branch = conversation_key(exchange.request)
        positions[exchange.idx] = (branch, counts.get(branch, 0))
        counts[branch] = counts.get(branch, 0) + 1
    return positions


def positions_of(run: Run) -> dict[int, tuple[str, int]]:
    """`model_positions` of the cassette that a run was read from; it is not read again.

    Examples
    --------
    >>> positions_of(Run("x", (Step(0, "llm", "llm", attrs={"branch": "b"}, exchange=3),)))
    {3: ('b', 0)}
    """
    counts: dict[str, int] = {}
    positions: dict[int, tuple[str, int]] = {}
    for step in run.steps:
        if step.kind == "llm" and step.exchange is not None:
            branch = str(step.attrs.get("branch", ""))
            positions[step.exchange] = (branch, counts.get(branch, 0))
            counts[branch] = counts.get(branch, 0) + 1
    return positions


def run_from_cassette(cassette: Cassette) -> Run:
    """The run that a cassette recorded.

    Parameters
    ----------
    cassette
        A recording of any number of exchanges and conversations.

    Returns
    -------
    Run
        Steps in capture order. An llm step has ``exchange``; its ``inputs`` are the messages new since
        the model's last turn, as text; usage, model, finish reason and branch stand in ``attrs``. A tool
        step has ``parent_idx`` (the llm step that called it), ``call_id``, ``result_exchange``, and in
        ``attrs`` the ``call_exchange`` and ``call_index``; its ``outputs`` are ``MISSING`` if the result
        never came back. ``answer`` is the last llm text without tool calls. Broken-off streams,
        provider errors and answers that cannot be read are warnings.

    Examples
    --------
    >>> from afnb.core.cassette import Request, Response
    >>> exchange = Exchange(0, Request("POST", "/v1/messages", body=b'{"messages": []}'),
    ...     Response(200, body=b'{"content": [{"type": "text", "text": "hi"}]}'))
    >>> run = run_from_cassette(Cassette("x", (exchange,)))
    >>> run.answer, run.steps[0].outputs
    ('hi', {'text': 'hi', 'tool_calls': []})
    """
    builder = _Builder(cassette)
    for exchange in cassette.exchanges:
        builder.take(exchange)
    builder.place_tools_after(None)
    steps = builder.finished()
    return Run(
        id=cassette.id,
        steps=steps,
        task=cassette.task,
        outcome=cassette.outcome,
        answer=builder.answer,
        warnings=(*cassette.warnings, *builder.warnings),
        source=cassette.source,
    )


class _Builder:
    """Goes through the exchanges once, in capture order."""

    def __init__(self, cassette: Cassette) -> None:
        self.warnings: list[Warn] = []
        self.answer: Json = None
        self._cassette = cassette
        self._attempts = attempts(cassette)
        self._steps: list[Step] = []
        self._waiting: dict[str, list[Waiting]] = {}
        self._calls: list[Waiting] = []
        self._tools = sorted(enumerate(cassette.tool_exchanges), key=lambda pair: pair[1].after_exchange)
        self._next_tool = 0
        self._http_tools = http_tools(cassette)
        self._failed_asks: dict[int, int] = {}
        for final in self._attempts.values():
            self._failed_asks[final] = self._failed_asks.get(final, 0) + 1

    def take(self, exchange: Exchange) -> None:
        """One exchange, in order: what it carries, then the steps it makes."""
        self.place_tools_after(exchange.idx - 1)
        request, response = exchange.request, exchange.response
        turns = read_turns(request)
        branch = conversation_key(request)
        carried = Carried.of(branch, turns)
        self._resolve(carried, exchange.idx)
        if exchange.idx in self._attempts:
            return
        answer = read_answer(request, response)
        tool = tool_over_http(exchange, self._http_tools) if answer is None else None
        if tool is not None:
            self._over_http(exchange, tool)
        elif answer is None:
            self._other(exchange, turns)
        else:
            self._llm(exchange, answer, turns, carried)

    def _resolve(self, carried: Carried, idx: int) -> None:
        for call_id in carried.results:
            waiting = self._waiting.get(call_id, [])
            for one in waiting:
                result = None if one.done else carried.result_of(one, waiting)
                if result is None:
                    continue
                one.done = True
                step = self._steps[one.place]
                attrs = {**step.attrs, "is_error": True} if result.is_error else step.attrs
                self._steps[one.place] = replace(step, outputs=result.value, result_exchange=idx, attrs=attrs)

    def _llm(self, exchange: Exchange, answer: Answer, turns: Sequence[Turn], carried: Carried) -> None:
        parent = len(self._steps)
        self._steps.append(
            Step(
                idx=parent,
                kind="llm",
                name=answer.role_name or "llm",
                inputs=_news(turns),
                outputs=outputs_of(answer),
                attrs=self._llm_attrs(exchange, answer, carried.branch),
                t_start=exchange.t_start,
                t_end=exchange.t_end,
                exchange=exchange.idx,
            )
        )
        for note in answer.notes:
            self.warnings.append(Warn(note.code, f"exchange {exchange.idx}: {note.message}"))
        if not answer.tool_calls:
            self.answer = answer.text
        seen: dict[str, int] = {}
        for index, call in enumerate(answer.tool_calls):
            nth = len(carried.results.get(call.id, ())) + seen.get(call.id, 0)
            seen[call.id] = seen.get(call.id, 0) + 1
            place = len(self._steps)
            waiting = Waiting(place, call, exchange.idx, carried.branch, nth)
            self._waiting.setdefault(call.id, []).append(waiting)
            self._calls.append(waiting)
            self._steps.append(
                Step(
                    idx=place,
                    kind="tool",
                    name=call.name,
                    inputs=call.arguments,
                    attrs={"call_exchange": exchange.idx, "call_index": index},
                    parent_idx=parent,
                    call_id=call.id,
                )
            )

    def _llm_attrs(self, exchange: Exchange, answer: Answer, branch: str) -> dict[str, Any]:
        attrs: dict[str, Any] = {"provider": provider_of(exchange.request), "branch": branch}
        if answer.model is not None:
            attrs["model"] = answer.model
        if answer.usage is not None:
            read, written = answer.usage.input_tokens, answer.usage.output_tokens
            attrs["usage"] = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
        if answer.finish is not None:
            attrs["finish"] = answer.finish
        if not answer.complete:
            attrs["complete"] = False
        if answer.error is not None:
            attrs["error"] = answer.error
        if answer.server_calls:
            attrs["server_tools"] = [call.name for call in answer.server_calls]
        if exchange.idx in self._failed_asks:
            attrs["failed_attempts"] = self._failed_asks[exchange.idx]
        return attrs

    def _other(self, exchange: Exchange, turns: Sequence[Turn]) -> None:
        request, response = exchange.request, exchange.response
        attrs: dict[str, Any] = {"status": response.status}
        error = provider_error(request, response)
        if error is not None:
            attrs["error"] = error
            self.warnings.append(
                Warn("provider_error", f"exchange {exchange.idx}: the provider said {error}")
            )
        if exchange.idx in self._failed_asks:
            attrs["failed_attempts"] = self._failed_asks[exchange.idx]
        if response.incomplete:
            self.warnings.append(
                Warn("incomplete", f"exchange {exchange.idx}: the answer stopped before its end")
            )
        elif error is None and is_model_request(request) and not is_pending(response.body):
            self.warnings.append(
                Warn("unreadable_answer", f"exchange {exchange.idx}: the model's answer cannot be read")
            )
        self._steps.append(
            Step(
                idx=len(self._steps),
                kind="other",
                name=f"{request.method} {request.path.partition('?')[0]}",
                inputs=_news(turns) if turns else _body_value(request.body),
                outputs=_body_value(response.body),
                attrs=attrs,
                t_start=exchange.t_start,
                t_end=exchange.t_end,
                exchange=exchange.idx,
            )
        )

    def _over_http(self, exchange: Exchange, tool: ToolExchange) -> None:
        waiting = self._call_of(replace(tool, after_exchange=exchange.idx - 1))
        attrs: dict[str, Any] = {**tool.attrs, "effect": tool.effect, "status": exchange.response.status}
        if tool.error is not None:
            attrs["error"] = tool.error
        if waiting is None:
            outputs: JsonOrMissing = MISSING if tool.error is not None else tool.output
            step = Step(len(self._steps), "tool", tool.name, tool.arguments, outputs)
            self._steps.append(step)
        else:
            waiting.tool_exchange = tool
            step = self._steps[waiting.place]
        self._steps[step.idx] = replace(
            step,
            attrs={**step.attrs, **attrs},
            t_start=exchange.t_start,
            t_end=exchange.t_end,
            exchange=exchange.idx,
        )

    # --- recorded tool exchanges ---

    def place_tools_after(self, idx: int | None) -> None:
        """Place the tool exchanges that ran up to this exchange (None: all that are left)."""
        while self._next_tool < len(self._tools):
            number, tool = self._tools[self._next_tool]
            if idx is not None and tool.after_exchange > idx:
                return
            self._next_tool += 1
            waiting = self._call_of(tool)
            if waiting is None:
                self._steps.append(_tool_step(Step(len(self._steps), "tool", tool.name), tool, number))
            else:
                waiting.tool_exchange = tool
                self._steps[waiting.place] = _tool_step(self._steps[waiting.place], tool, number)

    def _call_of(self, tool: ToolExchange) -> Waiting | None:
        """The call that a tool exchange answers: same tool, same arguments, made last before it ran."""
        named = same_tool if tool.attrs.get("over") == "mcp" else str.__eq__
        free = [
            w
            for w in self._calls
            if w.tool_exchange is None and named(w.call.name, tool.name) and w.exchange <= tool.after_exchange
        ]
        same = [w for w in free if equal(w.call.arguments, tool.arguments)]
        near = same or [w for w in free if w.exchange == tool.after_exchange]
        last = max((w.exchange for w in near), default=-1)
        return next((w for w in near if w.exchange == last), None)

    def finished(self) -> tuple[Step, ...]:
        """The steps; a result that never came back in a message is the tool exchange's, if there is one."""
        for waiting in self._calls:
            tool = waiting.tool_exchange
            if tool is not None and not waiting.done and tool.error is None:
                self._steps[waiting.place] = replace(self._steps[waiting.place], outputs=tool.output)
        return tuple(self._steps)


def _tool_step(step: Step, tool: ToolExchange, number: int) -> Step:
    attrs = {**step.attrs, "tool_exchange": number, "effect": tool.effect}
    if tool.error is not None:
        attrs["error"] = tool.error
    joined = "call_exchange" in step.attrs
    outputs: JsonOrMissing = MISSING if tool.error is not None else tool.output
    return replace(
        step,
        inputs=step.inputs if joined else tool.arguments,
        outputs=step.outputs if joined else outputs,
        attrs=attrs,
        t_start=tool.t_start,
        t_end=tool.t_end,
    )


def _news(turns: Sequence[Turn]) -> str:
    """What is new since the model's last turn, as text."""
    last = max((i for i, turn in enumerate(turns) if turn.role == "assistant"), default=-1)
    return turns_text(turns, last + 1)


def is_pending(body: bytes) -> bool:
    """Whether a body says that the answer is still being made.

    Examples
    --------
    >>> is_pending(b'{"status": "queued"}'), is_pending(b"{}")
    (True, False)
    """
    value = _body_value(body)
    return isinstance(value, dict) and value.get("status") in ("queued", "in_progress")


def _body_value(body: bytes) -> JsonOrMissing:
    """A body as JSON, else as text, else as its size and digest; MISSING if there is none."""
    if not body:
        return MISSING
    try:
        return loads(body)
    except InputError:
        pass
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
