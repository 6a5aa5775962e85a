"""afnb finds the step that made an agent fail, by experiment.

::

    file -> load -> Cassette | Run -> diff -> attribute, what_if -> Experiment | Attribution -> faces
            (io)    (core)            (align) (experiments, causal) (tables, cards)             (plot, cli)

Everything here is loaded when it is first used: importing afnb loads none of pandas, pyarrow,
matplotlib, ipywidgets, httpx or joblib.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_MODULES: dict[str, tuple[str, ...]] = {
    "afnb.align.diff": ("Diff", "NotComparable"),
    "afnb.align.params": ("AlignParams",),
    "afnb.causal.consensus": ("MajorityConsensus", "SequentialConsensus"),
    "afnb.causal.interventions": (
        "DropMessage",
        "Edit",
        "Graft",
        "InsertMessage",
        "Resample",
        "SystemPrompt",
    ),
    "afnb.causal.oracles": ("AnswerEquals", "Converges", "ExitStatus", "Matches", "Outcome"),
    "afnb.core.cassette": ("Cassette", "Request", "Response"),
    "afnb.core.eventlog": ("EventLog",),
    "afnb.core.matching": ("Matching",),
    "afnb.core.redaction": ("Redaction",),
    "afnb.core.run": ("Run", "Step"),
    "afnb.core.tape": ("Tape",),
    "afnb.errors": (
        "AfnbError",
        "AgentError",
        "Divergence",
        "InputError",
        "MalformedLog",
        "MissingDependency",
        "NeedsReconciliation",
        "ParameterError",
        "ToolFailed",
        "ToolRefused",
        "UpstreamError",
    ),
    "afnb.experiments.agents": ("Command", "Function"),
    "afnb.experiments.attribute": ("attribute",),
    "afnb.experiments.attribution": ("Attribution",),
    "afnb.experiments.budget": ("Budget",),
    "afnb.experiments.comparing": ("diff",),
    "afnb.experiments.ledger": ("Ledger",),
    "afnb.experiments.locate": ("locate",),
    "afnb.experiments.location": ("Location",),
    "afnb.experiments.plan": ("plan",),
    "afnb.experiments.planned": ("Plan",),
    "afnb.experiments.record": ("record",),
    "afnb.experiments.replaying": ("replay",),
    "afnb.experiments.results": ("Experiment",),
    "afnb.experiments.what_if": ("what_if",),
    "afnb.io.convert": ("convert",),
    "afnb.io.events": ("read_events",),
    "afnb.io.eventwrite": ("write_events",),
    "afnb.io.executors": ("Tool",),
    "afnb.io.load": ("load",),
    "afnb.io.logged": ("LoggedAgent",),
    "afnb.io.record": ("Recorder",),
    "afnb.io.simulated": ("SimulatedUpstream",),
    "afnb.io.tools": ("tool",),
    "afnb.io.upstream": ("HttpTool", "LiveUpstream", "ScriptedUpstream", "Upstream"),
    "afnb.io.validate_files": ("validate_files",),
    "afnb.report": ("Batch", "attribute_many", "read_batch"),
    "afnb.tables.events": ("event_log", "event_problems"),
    "afnb.tables.folds": ("run_states",),
    "afnb.tables.frames": ("to_pandas",),
    "afnb.tables.nodes": ("iterations", "node_progress"),
    "afnb.tables.recordings": ("exchanges", "runs", "steps"),
    "afnb.tables.validate": ("validate",),
    "afnb.tables.validation": ("ValidationReport",),
    "afnb.widgets.explorer": ("Explorer", "explore"),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}
_ROOMS = ("plot",)

__all__ = sorted([*_WHERE, *_ROOMS, "__version__"])

if TYPE_CHECKING:
    from afnb import plot as plot
    from afnb.align.diff import Diff as Diff
    from afnb.align.diff import NotComparable as NotComparable
    from afnb.align.params import AlignParams as AlignParams
    from afnb.causal.consensus import MajorityConsensus as MajorityConsensus
    from afnb.causal.consensus import SequentialConsensus as SequentialConsensus
    from afnb.causal.interventions import DropMessage as DropMessage
    from afnb.causal.interventions import Edit as Edit
    from afnb.causal.interventions import Graft as Graft
    from afnb.causal.interventions import InsertMessage as InsertMessage
    from afnb.causal.interventions import Resample as Resample
    from afnb.causal.interventions import SystemPrompt as SystemPrompt
    from afnb.causal.oracles import AnswerEquals as AnswerEquals
    from afnb.causal.oracles import Converges as Converges
    from afnb.causal.oracles import ExitStatus as ExitStatus
    from afnb.causal.oracles import Matches as Matches
    from afnb.causal.oracles import Outcome as Outcome
    from afnb.core.cassette import Cassette as Cassette
    from afnb.core.cassette import Request as Request
    from afnb.core.cassette import Response as Response
    from afnb.core.eventlog import EventLog as EventLog
    from afnb.core.matching import Matching as Matching
    from afnb.core.redaction import Redaction as Redaction
    from afnb.core.run import Run as Run
    from afnb.core.run import Step as Step
    from afnb.core.tape import Tape as Tape
    from afnb.errors import AfnbError as AfnbError
    from afnb.errors import AgentError as AgentError
    from afnb.errors import Divergence as Divergence
    from afnb.errors import InputError as InputError
    from afnb.errors import MalformedLog as MalformedLog
    from afnb.errors import MissingDependency as MissingDependency
    from afnb.errors import NeedsReconciliation as NeedsReconciliation
    from afnb.errors import ParameterError as ParameterError
    from afnb.errors import ToolFailed as ToolFailed
    from afnb.errors import ToolRefused as ToolRefused
    from afnb.errors import UpstreamError as UpstreamError
    from afnb.experiments.agents import Command as Command
    from afnb.experiments.agents import Function as Function
    from afnb.experiments.attribute import attribute as attribute
    from afnb.experiments.attribution import Attribution as Attribution
    from afnb.experiments.budget import Budget as Budget
    from afnb.experiments.comparing import diff as diff
    from afnb.experiments.ledger import Ledger as Ledger
    from afnb.experiments.locate import locate as locate
    from afnb.experiments.location import Location as Location
    from afnb.experiments.plan import plan as plan
    from afnb.experiments.planned import Plan as Plan
    from afnb.experiments.record import record as record
    from afnb.experiments.replaying import replay as replay
    from afnb.experiments.results import Experiment as Experiment
    from afnb.experiments.what_if import what_if as what_if
    from afnb.io.convert import convert as convert
    from afnb.io.events import read_events as read_events
    from afnb.io.eventwrite import write_events as write_events
    from afnb.io.executors import Tool as Tool
    from afnb.io.load import load as load
    from afnb.io.logged import LoggedAgent as LoggedAgent
    from afnb.io.record import Recorder as Recorder
    from afnb.io.simulated import SimulatedUpstream as SimulatedUpstream
    from afnb.io.tools import tool as tool
    from afnb.io.upstream import HttpTool as HttpTool
    from afnb.io.upstream import LiveUpstream as LiveUpstream
    from afnb.io.upstream import ScriptedUpstream as ScriptedUpstream
    from afnb.io.upstream import Upstream as Upstream
    from afnb.io.validate_files import validate_files as validate_files
    from afnb.report import Batch as Batch
    from afnb.report import attribute_many as attribute_many
    from afnb.report import read_batch as read_batch
    from afnb.tables.events import event_log as event_log
    from afnb.tables.events import event_problems as event_problems
    from afnb.tables.folds import run_states as run_states
    from afnb.tables.frames import to_pandas as to_pandas
    from afnb.tables.nodes import iterations as iterations
    from afnb.tables.nodes import node_progress as node_progress
    from afnb.tables.recordings import exchanges as exchanges
    from afnb.tables.recordings import runs as runs
    from afnb.tables.recordings import steps as steps
    from afnb.tables.validate import validate as validate
    from afnb.tables.validation import ValidationReport as ValidationReport
    from afnb.widgets.explorer import Explorer as Explorer
    from afnb.widgets.explorer import explore as explore


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(importlib.import_module(_WHERE[name]), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"afnb.{name}")
    else:
        raise AttributeError(f"module 'afnb' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
