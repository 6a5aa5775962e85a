"""``Run`` and ``Step``: what one agent run did, in order.

Three numbers are kept apart: a *step* is an index in a ``Run``, an *exchange* an index in a
``Cassette``, a *seq* a position in an event log. A step that was read from a recording says which
exchange (or seq) it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from afnb.core.jsonvalue import MISSING, JsonOrMissing
from afnb.core.page import Shown

StepKind = Literal["llm", "tool", "agent", "other"]
OutcomeLabel = Literal["pass", "fail", "unknown"]

STEP_KINDS: tuple[str, ...] = ("llm", "tool", "agent", "other")
OUTCOMES: tuple[str, ...] = ("pass", "fail", "unknown")


@dataclass(frozen=True, slots=True)
class Warn:
    """Something a loader could not use, as data: a ``code`` and a sentence."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a run.

    Parameters
    ----------
    idx
        Position as the source numbered it; alignment uses array positions, never this.
    kind
        ``llm``, ``tool``, ``agent`` or ``other``.
    name
        The role or tool; required by the cost of two steps.
    inputs, outputs
        JSON values, or ``MISSING`` when the source had none (``None`` is JSON null).
        An llm step's outputs are ``{"text", "tool_calls": [{"name", "arguments"}]}``.
    attrs
        Whatever else the source said (usage, model, ...).
    t_start, t_end
        RFC 3339 text as recorded.
    parent_idx
        The enclosing step, if the source has a tree.
    exchange
        Cassette exchange that holds this step's answer; None for a tool step seen only in messages.
    result_exchange
        Cassette exchange whose request first carried this tool step's result.
    call_id
        The tool-call id of a tool step.
    seq
        Event-log seq of the intent.
    """

    idx: int
    kind: StepKind
    name: str
    inputs: JsonOrMissing = MISSING
    outputs: JsonOrMissing = MISSING
    attrs: Mapping[str, Any] = field(default_factory=dict)
    t_start: str | None = None
    t_end: str | None = None
    parent_idx: int | None = None
    exchange: int | None = None
    result_exchange: int | None = None
    call_id: str | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Run(Shown):
    """One run: its steps in order, and what is known of it.

    ``outcome`` is given by the user and never guessed from a status. ``answer`` is the function
    agent's return value if there is one, else the last llm text without tool calls.

    Examples
    --------
    >>> run = Run("r", (Step(0, "llm", "llm", outputs={"text": "done", "tool_calls": []}),), outcome="fail")
    >>> len(run), run.steps[0].kind
    (1, 'llm')
    """

    id: str
    steps: tuple[Step, ...] = ()
    task: str | None = None
    outcome: OutcomeLabel | None = None
    schema_version: str = "0.1"
    answer: Any = None
    exit_status: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    warnings: tuple[Warn, ...] = ()
    source: str | None = None
    edges: tuple[tuple[int, int], ...] | None = None

    def __len__(self) -> int:
        return len(self.steps)

    def __bool__(self) -> bool:
        return True
