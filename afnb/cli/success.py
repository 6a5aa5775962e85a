"""``--success EXPR``: how replays are judged from the command line. Text, never evaluated code."""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from afnb.core.jsonvalue import MISSING
from afnb.core.legible import one_line
from afnb.errors import ParameterError

if TYPE_CHECKING:
    from afnb.causal.oracles import Judgement, Oracle
    from afnb.core.run import Run

FORMS = "regex:PATTERN, jsonpath:PATH or cmd:COMMAND"


def oracle_of(text: str) -> Oracle:
    """The oracle that ``--success`` describes.

    Raises
    ------
    ParameterError
        It has none of the three forms, or its pattern, path or command is broken.

    Examples
    --------
    >>> oracle_of("regex:refund issued").describe()
    'answer matches /refund issued/'
    >>> oracle_of("cmd:grep -q paid").describe()
    'the command "grep -q paid" ends with 0'
    """
    from afnb.causal.oracles import as_oracle

    kind, _, rest = text.partition(":")
    if kind not in ("regex", "jsonpath", "cmd") or not rest.strip():
        raise ParameterError(f"--success {text!r} is none of {FORMS}")
    if kind != "cmd":
        return as_oracle(text)
    try:
        argv = shlex.split(rest)
    except ValueError as error:
        raise ParameterError(f"--success {text!r} is no command: {str(error).lower()}") from None
    return CommandOracle(tuple(argv))


@dataclass(frozen=True, slots=True)
class CommandOracle:
    """Recovered = a command that reads the replayed run as JSON on stdin ends with 0; 1 is not recovered.

    Any other end says nothing about the run: the replay is inconclusive.

    Parameters
    ----------
    argv
        The command and its arguments; no shell is involved.
    timeout_s
        Seconds after which it is given up.
    """

    argv: tuple[str, ...]
    timeout_s: float = 60.0

    def judge(self, run: Run) -> Judgement:
        """Run the command once."""
        from afnb.causal.oracles import Judgement

        said = json.dumps(run_json(run), ensure_ascii=True)
        try:
            done = subprocess.run(
                self.argv, input=said, capture_output=True, text=True, timeout=self.timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            return Judgement("inconclusive", f"the command took longer than {self.timeout_s:g} s")
        except OSError as error:
            return Judgement("inconclusive", f"the command cannot be run: {error.strerror or error}")
        words = one_line((done.stdout.strip() or done.stderr.strip()).split("\n")[-1], 200)
        detail = f"the command ended with {done.returncode}{f': {words}' if words else ''}"
        if done.returncode == 0:
            return Judgement("recovered", detail)
        return Judgement("not_recovered" if done.returncode == 1 else "inconclusive", detail)

    def describe(self) -> str:
        """What counts as recovered."""
        return f'the command "{shlex.join(self.argv)}" ends with 0'

    def fingerprint(self) -> str:
        """Hash of the command."""
        return hashlib.blake2b(repr(("cmd", self.argv)).encode(), digest_size=16).hexdigest()


def run_json(run: Run) -> dict[str, Any]:
    """What a ``cmd:`` oracle reads: the answer, the command's streams and the steps."""
    return {
        "id": run.id,
        "task": run.task,
        "answer": run.answer,
        "exit_status": run.exit_status,
        "stdout": run.stdout,
        "stderr": run.stderr,
        "steps": [
            {
                "idx": step.idx,
                "kind": step.kind,
                "name": step.name,
                "outputs": None if step.outputs is MISSING else step.outputs,
            }
            for step in run.steps
        ],
    }
