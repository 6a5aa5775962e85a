"""Recovery oracles: did this replayed run recover? ``oracle.judge(run)`` says so, with the detail.

An oracle never raises: one that fails gives ``inconclusive`` with the reason, so that a broken oracle
neither makes nor breaks a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from afnb.align.diff import diff, run_digest
from afnb.align.params import AlignParams
from afnb.causal.jsonpath import parse_path
from afnb.causal.lambdas import is_lambda, lambda_source
from afnb.causal.marks import digest, name_of
from afnb.core.cassette import Cassette
from afnb.core.eventlog import EventLog
from afnb.core.jsonvalue import MISSING, JsonOrMissing, dumps, equal, loads
from afnb.core.logsteps import run_from_log
from afnb.core.run import Run
from afnb.core.steps import run_from_cassette
from afnb.errors import InputError, ParameterError

Recovery = Literal["recovered", "not_recovered", "inconclusive"]
Where = Literal["answer", "stdout", "stderr"]

_WORDS: tuple[Recovery, ...] = ("recovered", "not_recovered", "inconclusive")
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Judgement:
    """What an oracle says of one replayed run, and why."""

    recovery: Recovery
    detail: str = ""


@runtime_checkable
class Oracle(Protocol):
    """Judges one replayed run."""

    def judge(self, run: Run) -> Judgement:
        """Whether the run recovered."""

    def describe(self) -> str:
        """What counts as recovered, for a person."""

    def fingerprint(self) -> str:
        """A hash that changes when the oracle's definition does, and is the same in every process."""


def _verdict(recovered: bool, detail: str) -> Judgement:
    return Judgement("recovered" if recovered else "not_recovered", detail)


def _raised(error: BaseException) -> Judgement:
    text = str(error)
    return Judgement("inconclusive", f"the oracle raised {type(error).__name__}{': ' if text else ''}{text}")


def _short(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else dumps(value)
    except ValueError:
        text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def converges(
    good: Run,
    replayed: Run,
    params: AlignParams | None = None,
    *,
    reached: int = 0,
    max_steps: int | None = None,
) -> Judgement:
    """Whether a replayed run converges with the good one: the alignment finds no fork.

    Parameters
    ----------
    good, replayed
        The reference and the run to judge.
    params
        Of the alignment.
    reached
        The step that was changed; a replay too short to hold it is inconclusive.
    max_steps
        Runs with more steps are not compared: inconclusive. None for the alignment's own guard.

    Returns
    -------
    Judgement
        Two runs that cannot be compared have not converged: ``not_recovered``.
    """
    if reached >= len(replayed):
        return Judgement(
            "inconclusive", f"the replay has {len(replayed)} steps and never reached step {reached}"
        )
    try:
        found = diff(replayed, good, params, max_steps)
    except ParameterError as error:
        return Judgement("inconclusive", str(error))
    if not found.comparable:
        return Judgement("not_recovered", f"not comparable with the good run: {found.reason}")
    if found.fork is None:
        return Judgement("recovered", "no fork from the good run")
    return Judgement("not_recovered", f"forks from the good run at step {found.fork_step_observed}")


@dataclass(frozen=True, slots=True)
class Converges:
    """Recovered = the replay follows the good run to its end: the alignment finds no fork.

    Parameters
    ----------
    good
        The good run, or its cassette.
    params
        Alignment parameters; the defaults if None.
    """

    good: Run | Cassette | EventLog
    params: AlignParams | None = None

    def __post_init__(self) -> None:
        if isinstance(self.good, Cassette):
            object.__setattr__(self, "good", run_from_cassette(self.good))
        elif isinstance(self.good, EventLog):
            object.__setattr__(self, "good", run_from_log(self.good))
        elif not isinstance(self.good, Run):
            raise ParameterError(
                f"Converges takes a good Run, Cassette or EventLog, got {type(self.good).__name__}"
            )

    @property
    def run(self) -> Run:
        """The good run."""
        assert isinstance(self.good, Run)
        return self.good

    def judge(self, run: Run) -> Judgement:
        """Whether the run converges with the good one."""
        try:
            return converges(self.run, run, self.params)
        except Exception as error:  # noqa: BLE001  # an oracle's failure is a reason, never an exception
            return _raised(error)

    def describe(self) -> str:
        """What counts as recovered."""
        return f"converges with the good run {self.run.id}"

    def fingerprint(self) -> str:
        """Hash of the good run's steps and the parameters."""
        return digest("Converges", run_digest(self.run), repr(self.params or AlignParams()))


Said = bool | str | Judgement | None
"""What a predicate may return: True or False; None for "cannot say"; one of the three words."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Recovered = a function of the replayed run says so.

    Parameters
    ----------
    predicate
        Called with the replayed :class:`~afnb.core.run.Run`. True is recovered, False is not, None is
        inconclusive; ``"recovered"``, ``"not_recovered"``, ``"inconclusive"`` and a :class:`Judgement`
        are taken as they are. Raising, or returning anything else, is inconclusive with the reason.
    name
        How to call it; the function's name, or a lambda's source, if None.

    Examples
    --------
    >>> paid = Outcome(lambda run: "paid" in run.answer, name="says paid")
    >>> paid.judge(Run("r", answer="it is paid")).recovery
    'recovered'
    >>> paid.judge(Run("r")).detail
    "the oracle raised TypeError: argument of type 'NoneType' is not iterable"
    """

    predicate: Callable[[Run], Said]
    name: str | None = None

    def __post_init__(self) -> None:
        if not callable(self.predicate):
            raise ParameterError(
                f"Outcome takes a function of the replayed run, got {type(self.predicate).__name__}"
            )

    def judge(self, run: Run) -> Judgement:
        """What the predicate says of the run."""
        try:
            said: object = self.predicate(run)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # a failure is a reason, never an exception
            return _raised(error)
        if isinstance(said, Judgement):
            return said
        called = self.name or name_of(self.predicate)
        if said is None:
            return Judgement("inconclusive", f"{called} returned None")
        if isinstance(said, bool) or type(said).__name__ in ("bool", "bool_"):
            return _verdict(bool(said), f"{called} is {bool(said)}")
        for word in _WORDS:
            if said == word and isinstance(said, str):
                return Judgement(word, f"{called} said {word}")
        return Judgement(
            "inconclusive",
            f"{called} returned {_short(repr(said))}; it must return True, False or None",
        )

    def describe(self) -> str:
        """What counts as recovered: the name, or for a lambda without one its source where that is known."""
        if self.name or not is_lambda(self.predicate):
            return self.name or name_of(self.predicate)
        source = lambda_source(self.predicate)
        return "a function (lambda) of the run" + (f": {source}" if source else "")

    def fingerprint(self) -> str:
        """Hash of the predicate's code, defaults and what it closes over."""
        return digest("Outcome", self.predicate)


@dataclass(frozen=True, slots=True)
class AnswerEquals:
    """Recovered = the run's answer equals ``value`` (typed: 1 is neither 1.0 nor true).

    An answer that is text also equals a ``value`` that is no text if it parses to it as JSON.

    Examples
    --------
    >>> AnswerEquals("42").judge(Run("r", answer="42")).recovery
    'recovered'
    >>> AnswerEquals({"ok": True}).judge(Run("r", answer='{"ok": true}')).recovery
    'recovered'
    """

    value: Any

    def __post_init__(self) -> None:
        _json_or_error("AnswerEquals(value=...)", self.value)

    def judge(self, run: Run) -> Judgement:
        """Whether the run's answer is the value."""
        answer = run.answer
        if answer is None and self.value is not None:
            return Judgement("not_recovered", "the run has no answer")
        if isinstance(answer, str) and not isinstance(self.value, str):
            parsed = _parsed(answer)
            answer = answer if parsed is MISSING else parsed
        try:
            return _verdict(equal(answer, self.value), f"the answer is {_short(answer)}")
        except Exception as error:  # noqa: BLE001  # an oracle's failure is a reason, never an exception
            return _raised(error)

    def describe(self) -> str:
        """What counts as recovered."""
        return f"the answer equals {_short(dumps(self.value))}"

    def fingerprint(self) -> str:
        """Hash of the value."""
        return digest("AnswerEquals", dumps(self.value))


@dataclass(frozen=True, slots=True)
class Matches:
    """Recovered = the answer (or ``stdout``, ``stderr``) matches a regular expression or a JSON path.

    Parameters
    ----------
    pattern
        Regular expression, searched anywhere in the text (an answer that is no text is searched as JSON).
    jsonpath
        Path into the answer, which is parsed as JSON if it is text: the subset of
        :mod:`afnb.causal.jsonpath`, e.g. ``$.items[0].status == "paid"``. Without a comparison something
        must be there.
    where
        What is matched.

    Examples
    --------
    >>> Matches(r"refund (issued|paid)").judge(Run("r", answer="The refund issued today")).recovery
    'recovered'
    >>> Matches(jsonpath='$.status == "paid"').judge(Run("r", answer='{"status": "open"}')).recovery
    'not_recovered'
    """

    pattern: str | None = None
    jsonpath: str | None = None
    where: Where = "answer"

    def __post_init__(self) -> None:
        if (self.pattern is None) == (self.jsonpath is None):
            raise ParameterError("Matches takes either pattern= or jsonpath=, one of the two")
        if self.where not in ("answer", "stdout", "stderr"):
            raise ParameterError(f"Matches(where={self.where!r}): it is 'answer', 'stdout' or 'stderr'")
        if self.jsonpath is not None:
            parse_path(self.jsonpath)
        else:
            try:
                re.compile(self.pattern or "")
            except (re.error, TypeError, OverflowError, RecursionError) as error:
                raise ParameterError(
                    f"Matches(pattern={self.pattern!r}): no regular expression: {error}"
                ) from None

    def judge(self, run: Run) -> Judgement:
        """Whether the run's text matches."""
        value: Any = getattr(run, self.where)
        if value is None:
            return Judgement("not_recovered", f"the run has no {self.where}")
        try:
            if self.jsonpath is not None:
                parsed: JsonOrMissing = _parsed(value) if isinstance(value, str) else value
                if parsed is MISSING:
                    return Judgement("not_recovered", f"the {self.where} is not JSON: {_short(value)}")
                return _verdict(
                    parse_path(self.jsonpath).holds(parsed), f"the {self.where} is {_short(value)}"
                )
            text = value if isinstance(value, str) else dumps(value)
            return _verdict(
                re.search(self.pattern or "", text) is not None, f"the {self.where} is {_short(value)}"
            )
        except Exception as error:  # noqa: BLE001  # an oracle's failure is a reason, never an exception
            return _raised(error)

    def describe(self) -> str:
        """What counts as recovered."""
        what = f"/{self.pattern}/" if self.jsonpath is None else self.jsonpath
        return f"{self.where} matches {what}"

    def fingerprint(self) -> str:
        """Hash of the pattern or path and what it is applied to."""
        return digest("Matches", self.pattern, self.jsonpath, self.where)


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """Recovered = the agent's command ended with this exit status.

    Examples
    --------
    >>> ExitStatus().judge(Run("r", exit_status=0)).recovery
    'recovered'
    """

    status: int = 0

    def judge(self, run: Run) -> Judgement:
        """Whether the command ended with the status; inconclusive for an agent that is no command."""
        if run.exit_status is None:
            return Judgement("inconclusive", "the agent has no exit status (only a command has)")
        return _verdict(run.exit_status == self.status, f"exit status {run.exit_status}")

    def describe(self) -> str:
        """What counts as recovered."""
        return f"exit status {self.status}"

    def fingerprint(self) -> str:
        """Hash of the status."""
        return digest("ExitStatus", self.status)


def as_oracle(value: object) -> Oracle:
    """An oracle from what a user gives: an oracle, a function of the run, ``regex:...`` or ``jsonpath:...``.

    Raises
    ------
    ParameterError
        It is none of these.

    Examples
    --------
    >>> as_oracle("regex:refund issued").describe()
    'answer matches /refund issued/'
    """
    if isinstance(value, Oracle) and not isinstance(value, type):
        return value
    if isinstance(value, str):
        kind, _, rest = value.partition(":")
        if kind == "regex" and rest:
            return Matches(pattern=rest)
        if kind == "jsonpath" and rest:
            return Matches(jsonpath=rest)
        raise ParameterError(f"the oracle {value!r} is not understood: write regex:PATTERN or jsonpath:PATH")
    if callable(value) and not isinstance(value, type):
        return Outcome(value)
    raise ParameterError(
        f"an oracle is Converges, Outcome, AnswerEquals, Matches, ExitStatus or a function, got {value!r}"
    )


def _parsed(text: str) -> JsonOrMissing:
    try:
        return loads(text)
    except InputError:
        return MISSING


def _json_or_error(what: str, value: object) -> None:
    try:
        dumps(value)
    except (ValueError, TypeError) as error:
        raise ParameterError(f"{what} is no JSON value: {error}") from None
