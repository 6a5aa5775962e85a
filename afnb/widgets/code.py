"""An explorer's experiment as the Python code that runs the same one."""

from __future__ import annotations

import os
from typing import Any

from afnb.errors import AfnbError
from afnb.experiments.agents import Command
from afnb.experiments.budget import Budget
from afnb.experiments.recordings import Recording, recording_hash
from afnb.io.load import load
from afnb.widgets.subject import Subject
from afnb.widgets.trials import Settings, Setup


def code_of(subject: Subject, setup: Setup, settings: Settings, given: Any = None) -> str:
    """A cell that runs the experiment; names that cannot be written out are those given to ``explore``.

    Parameters
    ----------
    given
        The oracle that ``explore`` was given, if any.
    """
    lines: list[str] = []
    names: list[str] = []
    for name, recording in (("bad", subject.bad), ("good", subject.good)):
        if recording is None:
            continue
        path = file_of(recording)
        if path is None:
            names.append(name)
        else:
            lines.append(f"{name} = afnb.load({path!r})")
    if subject.good is None and setup.oracle_choice == "converges":
        names.append("good")
    arguments = ["bad", f"afnb.{setup.intervention!r}"]

    def argue(name: str, value: Any, written: str | None) -> None:
        if written is None:
            names.append(name)
        arguments.append(f"{name}={written or name}")

    argue("agent", settings.agent, agent_code(settings.agent))
    if settings.upstream is not None:
        argue("upstream", settings.upstream, as_text(settings.upstream))
    argue("oracle", setup.oracle, oracle_code(setup))
    if subject.good is not None:
        arguments.append("good=good")
    rule = repr(settings.consensus)
    argue(
        "consensus", rule, f"afnb.{rule}" if type(settings.consensus).__module__.startswith("afnb.") else None
    )
    arguments.append(f"budget={budget_code(setup.budget)}")
    if setup.allow_tools:
        arguments.append(f"allow_tools={setup.allow_tools!r}")
    arguments += [f"n_jobs={settings.n_jobs}", f"seed={settings.seed}"]
    if settings.backend != "threading":
        arguments.append(f"backend={settings.backend!r}")
    if settings.matching is not None:
        argue("matching", settings.matching, None)
    if settings.ledger is not None:
        argue("ledger", settings.ledger, as_text(settings.ledger))
    head = ["import afnb", ""]
    if names:
        head.append(f"# {', '.join(names)}: as given to afnb.explore")
    body = "\n".join(f"    {argument}," for argument in arguments)
    return "\n".join([*head, *lines, f"e = afnb.what_if(\n{body}\n)", "e"]) + "\n"


def file_of(recording: Recording) -> str | None:
    """The file that a recording was read from, if reading it again gives the same; else None."""
    path = recording.source
    if not path or not os.path.isfile(path):
        return None
    try:
        again = load(path)
    except AfnbError:
        return None
    same = isinstance(again, type(recording)) and recording_hash(again) == recording_hash(recording)
    return path if same else None


def as_text(value: Any) -> str | None:
    """A text as Python; None for anything else."""
    return repr(value) if isinstance(value, str) else None


def agent_code(agent: Any) -> str | None:
    """A command without variables of its own (they may hold keys), or a list of arguments; else None."""
    if isinstance(agent, Command) and agent.env is None:
        return f"afnb.{agent!r}"
    if isinstance(agent, list | tuple) and all(isinstance(part, str) for part in agent):
        return repr(list(agent))
    return None


def oracle_code(setup: Setup) -> str | None:
    """The chosen oracle; None for the one that was given."""
    if setup.oracle_choice == "given":
        return None
    if setup.oracle_choice == "converges":
        return "afnb.Converges(good)"
    return f"afnb.{setup.oracle!r}"


def budget_code(budget: Budget) -> str:
    """The budget, without limits that are not set."""
    parts = [f"live_calls={budget.live_calls!r}"]
    for name in ("tokens", "dollars", "seconds", "prices"):
        value = getattr(budget, name)
        if value is not None:
            parts.append(f"{name}={value!r}")
    return f"afnb.Budget({', '.join(parts)})"
