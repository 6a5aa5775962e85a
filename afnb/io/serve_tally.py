"""The counts of a session while it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from afnb.core.cassette import Cassette, Exchange, Request, Response
from afnb.core.matching import mask_query
from afnb.core.nearest import Explanation
from afnb.core.providers import Answer, Usage
from afnb.core.redaction import Redaction
from afnb.core.tape import Miss, Tape
from afnb.io.redact import safe_exchange
from afnb.io.serve_answers import RETRIED
from afnb.io.serve_facts import is_incomplete, no_answer
from afnb.io.serve_report import KEPT_MISSES, Missed, Tokens


@dataclass(slots=True)
class Tally:
    """Mutable counters; ``SessionReport`` says what each one means."""

    requests: int = 0
    served: int = 0
    served_patched: int = 0
    served_good: int = 0
    live: int = 0
    missed: int = 0
    live_before_branch: int = 0
    beyond_recording: int = 0
    incomplete: int = 0
    incomplete_live: int = 0
    abandoned: int = 0
    late: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    misses: list[Missed] = field(default_factory=list)
    tokens: Tokens = field(default_factory=Tokens)
    tokens_live: Tokens = field(default_factory=Tokens)
    upstream_errors: list[str] = field(default_factory=list)
    live_error_statuses: list[int] = field(default_factory=list)
    unanswered: dict[str | None, str] = field(default_factory=dict)
    tools_served: int = 0
    tools_live: int = 0
    tools_stubbed: int = 0
    tools_refused: list[str] = field(default_factory=list)
    tools_unrecorded: list[str] = field(default_factory=list)

    def miss(self, missed: Missed) -> None:
        """Count a request that the tape could not answer."""
        self.missed += 1
        if len(self.misses) < KEPT_MISSES:
            self.misses.append(missed)

    def heard(
        self,
        branch: str | None,
        response: Response,
        answer: Answer | None,
        *,
        of_model: bool,
        abandoned: bool,
    ) -> None:
        """Count what a live call brought, and whether its conversation still waits for an answer."""
        if response.status >= 400:
            self.live_error_statuses.append(response.status)
        self.abandoned += abandoned
        cut = not abandoned and is_incomplete(response, answer)
        self.incomplete += cut
        self.incomplete_live += cut
        if not of_model:
            return
        if response.status < 300:
            self.spend(None if answer is None else answer.usage, live=True)
        fault = None if answer is not None or abandoned else no_answer(response)
        if fault is None:
            self.unanswered.pop(branch, None)
        else:
            self.unanswered[branch] = fault

    def spend(self, usage: Usage | None, *, live: bool) -> None:
        """Add the usage that an answer of the model states."""
        self.tokens = _plus(self.tokens, usage)
        if live:
            self.tokens_live = _plus(self.tokens_live, usage)


def _plus(tokens: Tokens, usage: Usage | None) -> Tokens:
    if usage is None:
        return Tokens(tokens.input, tokens.output, tokens.unknown + 1)
    return Tokens(
        tokens.input + (usage.input_tokens or 0), tokens.output + (usage.output_tokens or 0), tokens.unknown
    )


def explain(number: int, request: Request, why: Miss | Explanation, tape: Tape | None) -> Missed:
    """Why the tape has no answer to a request, as plain data."""
    said = why.explanation if isinstance(why, Miss) else why
    return Missed(
        number,
        request.method,
        mask_query(request.path),
        said.nearest,
        said.path,
        said.recorded,
        said.asked,
        said.reason,
        tuple(said.suggestions),
        said.offset,
        None if tape is None else str(tape.key(request)),
        None if tape is None or said.nearest is None else str(tape.keys[said.nearest]),
    )


class Recording:
    """The new cassette as it grows: exchanges in order of completion, each fit for disk.

    ``origin`` is the recording that is replayed: what was redacted there is redacted here.
    """

    def __init__(
        self, sink: Callable[[Exchange], None] | None = None, origin: Cassette | None = None
    ) -> None:
        self._sink = sink
        self._origin = origin
        settings = None if origin is None else origin.attrs.get("redaction")
        self.redaction = None if settings is None else Redaction.from_json(settings)
        self.exchanges: list[Exchange] = []
        self.sources: list[str] = []
        self._failed: dict[tuple[str, str, bytes], int] = {}

    def add(
        self,
        request: Request,
        response: Response,
        source: str,
        times: tuple[str, str],
        upstream: str | None = None,
        forwarded: Request | None = None,
    ) -> int:
        """Append one completed exchange and give its number.

        A request asked again after a retryable error is its attempt.
        """
        key = (request.method, request.path, request.body)
        first = self._failed.get(key)
        idx = len(self.exchanges)
        if response.status in RETRIED or response.status >= 500:
            self._failed.setdefault(key, idx)
        else:
            self._failed.pop(key, None)
        exchange = safe_exchange(
            Exchange(
                idx,
                request,
                response,
                t_start=times[0],
                t_end=times[1],
                attempt_of=first,
                upstream=upstream,
                forwarded=forwarded,
            )
        )
        if self.redaction is not None:
            exchange = self.redaction.exchange(exchange)
        self.sources.append(source)
        self.exchanges.append(exchange)
        if self._sink is not None:
            self._sink(exchange)
        return idx

    def cassette(self, id: str) -> Cassette:
        """What has been recorded so far."""
        if self._origin is None:
            return Cassette(id, tuple(self.exchanges))
        attrs: dict[str, object] = {"sources": list(self.sources)}
        if self.redaction is not None:
            attrs["redaction"] = self.redaction.to_json()
        return Cassette(id, tuple(self.exchanges), task=self._origin.task, attrs=attrs)


def now() -> str:
    """The time as RFC 3339 text, UTC, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
