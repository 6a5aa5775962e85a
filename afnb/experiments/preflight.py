"""The pre-flight: what a replay serves, changes and asks live, and which tools would really run again.

afnb can hold back only the tools it sees. A tool that runs inside the agent runs again in every
replay, so it must be allowed by name before anything is started.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from afnb.core.arm import Arm, LogArm
from afnb.core.cassette import Cassette
from afnb.core.page import Badge, Facts, Page, Part, Shown, Table, Text
from afnb.core.providers import is_model_request, offered_tools
from afnb.core.run import Run
from afnb.core.toolcalls import effect_of, seen_tools
from afnb.errors import ParameterError


@dataclass(frozen=True, slots=True)
class ToolNotice:
    """One tool the recording names: how often it was called, and what becomes of it in a replay."""

    name: str
    calls: int
    offered: bool
    fate: str

    @property
    def blocked(self) -> bool:
        """Whether it stops the experiment."""
        return self.fate == "would run again, not allowed"


@dataclass(frozen=True, slots=True, repr=False)
class Preflight(Shown):
    """What every replay of an experiment would do."""

    recording: str
    served: int
    recorded: int
    changed: tuple[int, ...]
    tools: tuple[ToolNotice, ...]
    unit: str = "exchanges"
    unknown: tuple[tuple[str, str | None], ...] = ()
    """Names that were allowed and are no tool here, each with the nearest tool that is."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each allowed name that is no tool here."""
        found = []
        for name, nearest in self.unknown:
            hint = f"the nearest one is {nearest!r}" if nearest else "there is none"
            found.append(f"allow_tools names {name!r}, which is no tool of the recordings; {hint}")
        return tuple(found)

    @property
    def blocked(self) -> tuple[str, ...]:
        """Tools that would run again and were not allowed."""
        return tuple(tool.name for tool in self.tools if tool.blocked)

    def sentence(self) -> str:
        """What is served, changed and live, and what becomes of each tool, in one line."""
        changed = ", ".join(str(step) for step in self.changed)
        steps = (
            f"step{'s' if len(self.changed) > 1 else ''} {changed} changed" if changed else "nothing changed"
        )
        told = f"up to {self.served} of {self.recorded} {self.unit} from the tape, {steps}, live after"
        return f"{told}; tools: {self.fates() or 'none are named'}"

    def fates(self) -> str:
        """What becomes of each tool: for one row of a result's card."""
        return "; ".join(f"{tool.name} {tool.fate}" for tool in self.tools)

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "served": self.served,
            "recorded": self.recorded,
            "unit": self.unit,
            "changed": list(self.changed),
            "tools": [
                {"name": t.name, "calls": t.calls, "offered": t.offered, "fate": t.fate} for t in self.tools
            ],
            "blocked": list(self.blocked),
            "warnings": list(self.warnings),
        }

    def parts(self) -> list[Part]:
        """What a card shows of it."""
        rows = tuple((t.name, str(t.calls), "yes" if t.offered else "no", t.fate) for t in self.tools)
        facts = Facts(
            (
                ("from the tape", f"up to {self.served} of {self.recorded} {self.unit}"),
                ("changed", ", ".join(f"step {step}" for step in self.changed) or "nothing"),
                ("live", "every request after the branch point"),
            )
        )
        table = Table(
            ("tool", "calls recorded", "offered", "in a replay"), rows, "tools that the recording names"
        )
        return [*(Text(warning, "warn") for warning in self.warnings), facts, table]

    def page(self) -> Page:
        """The card."""
        tone = Badge("stops here", "bad") if self.blocked else Badge("may start", "good")
        following = (f"allow_tools={list(self.blocked)!r}",) if self.blocked else ()
        return Page(f"Before replaying {self.recording}", tone, tuple(self.parts()), following)


def preflight(recordings: Sequence[tuple[Cassette, Run]], arm: Arm, allow_tools: Iterable[str]) -> Preflight:
    """What replays under ``arm`` would do with the tools that the recordings name.

    Parameters
    ----------
    recordings
        The intervened recording first, then others that are replayed too (the good one).
    arm
        The patch arm.
    allow_tools
        Names of tools that may run again.

    Raises
    ------
    ParameterError
        ``allow_tools`` is one text instead of several names.
    """
    if isinstance(allow_tools, str):
        raise ParameterError(
            f"allow_tools={allow_tools!r}: give a list of tool names, e.g. [{allow_tools!r}]"
        )
    allowed = frozenset(allow_tools)
    calls: dict[str, int] = {}
    wrapped: dict[str, str] = {}
    offered: set[str] = set()
    for cassette, run in recordings:
        for step in run.steps:
            if step.kind == "tool":
                calls[step.name] = calls.get(step.name, 0) + 1
        wrapped.update(seen_tools(cassette))
        for exchange in cassette.exchanges:
            if is_model_request(exchange.request):
                offered.update(offered_tools(exchange.request))
    tools = tuple(
        ToolNotice(name, calls.get(name, 0), name in offered, _fate(name, allowed, wrapped))
        for name in sorted({*calls, *offered})
    )
    recording = recordings[0][0]
    return Preflight(
        recording=recording.id,
        served=min(arm.serve_through + 1, len(recording.exchanges)),
        recorded=len(recording.exchanges),
        changed=tuple(patch.step for patch in arm.patches),
        tools=tools,
        unknown=unknown_names(allowed, {*calls, *offered, *wrapped}),
    )


def log_preflight(
    runs: Sequence[Run], effects: Mapping[str, str], arm: LogArm, allow_tools: Iterable[str]
) -> Preflight:
    """What replays of an event log would do with its tools, whose effect classes are known.

    Nothing is blocked: a ``write`` that is not allowed is refused when it is asked for, and makes that
    replay inconclusive.
    """
    allowed = frozenset(allow_tools)
    calls: dict[str, int] = {}
    for run in runs:
        for step in run.steps:
            if step.kind == "tool":
                calls[step.name] = calls.get(step.name, 0) + 1
    tools = []
    for name in sorted({*calls, *effects}):
        effect = effects.get(name, "write")
        if effect == "write" and name not in allowed:
            fate = "served up to the branch point, refused after it (write)"
        else:
            fate = f"served up to the branch point, runs after it ({effect})"
        tools.append(ToolNotice(name, calls.get(name, 0), name in effects, fate))
    return Preflight(
        recording=runs[0].id,
        served=arm.prefix_calls,
        recorded=len(runs[0].steps),
        changed=tuple(patch.step for patch in arm.patches),
        tools=tuple(tools),
        unit="calls",
        unknown=unknown_names(allowed, {*calls, *effects}),
    )


def unknown_names(allowed: Collection[str], tools: Collection[str]) -> tuple[tuple[str, str | None], ...]:
    """Allowed names that are no tool, each with the tool whose name is most like it (None without tools).

    Examples
    --------
    >>> unknown_names(["lokup", "refund"], ["lookup_order", "refund"])
    (('lokup', 'lookup_order'),)
    """
    wrong = sorted(set(allowed) - set(tools))
    return tuple((name, next(iter(get_close_matches(name, sorted(tools), 1, 0.0)), None)) for name in wrong)


def _fate(name: str, allowed: frozenset[str], wrapped: dict[str, str]) -> str:
    effect = effect_of(name, wrapped)
    if effect is None:
        return "runs again, allowed" if name in allowed else "would run again, not allowed"
    if effect == "write" and name not in allowed:
        return "served up to the branch point, refused after it (write; or its stand-in)"
    return f"served up to the branch point, runs after it ({effect})"


def require_allowed(check: Preflight) -> None:
    """Stop before anything starts if a tool would run again that was not allowed.

    Raises
    ------
    ParameterError
        Names the tools and how to go on.
    """
    if not check.blocked:
        return
    names = ", ".join(check.blocked)
    flags = " ".join(f"--allow-tools {name}" for name in check.blocked)
    also = "".join(f"; {warning}" for warning in check.warnings)
    raise ParameterError(
        f"replaying {check.recording} would run these tools of the agent again: {names}; if that is safe, "
        f"allow them by name: allow_tools={list(check.blocked)!r} (command line: {flags}){also}"
    )
