"""``Changes``: what interventions on requests do to the requests after them.

A changed prompt or model holds from its step on, and an agent knows nothing of it: each later request of
the conversation has to be changed anew. A run that was branched so keeps what held in it (``carried``), so
that it can be branched again: what its recording holds after that point was answered under it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from afnb.core import providers
from afnb.core.arm import AskAgain, Patch
from afnb.core.cassette import Cassette, Request
from afnb.core.jsonvalue import Json
from afnb.core.reshape import RequestChange, reshape
from afnb.io.serve_turn import Choice, Live

CARRIED = "carried"
"""Name of the recording's list of what held in it."""


class Changes:
    """What holds for the requests of one replay.

    Parameters
    ----------
    recording
        The branched recording, with what held in it.
    """

    def __init__(self, recording: Cassette) -> None:
        self._recording = recording
        self._own: list[tuple[AskAgain, int]] = []
        known = recording.attrs.get(CARRIED)
        self._kept = [rule for rule in known if isinstance(rule, Mapping)] if isinstance(known, list) else []
        self._passed = -1

    def passed(self, exchange: int) -> None:
        """Note how far into the recording this replay has come."""
        self._passed = max(self._passed, exchange)

    def began(self, patch: Patch, at: int) -> None:
        """Note that an intervention took effect."""
        if isinstance(patch, AskAgain) and (patch.model is not None or patch.change is not None):
            self._own.append((patch, at))

    def begun(self, patch: AskAgain, request: Request) -> Request | None:
        """The request at which an intervention begins; None if its change cannot be made there."""
        changed = request if patch.change is None else reshape(request, patch.change)
        if changed is None or patch.model is None:
            return changed
        return providers.with_model(changed, patch.model)

    def made(self, request: Request, asked: Request, branch: str) -> Request:
        """A later request with everything that holds by now."""
        if not self._own:
            return request
        model = providers.requested_model(asked)
        for patch, _at in self._own:
            if patch.change is not None and patch.branch == branch:
                request = reshape(request, patch.change) or request
            if patch.model is not None and model == self._model_at(patch):
                request = providers.with_model(request, patch.model)
        return request

    def inherited(self, request: Request, branch: str | None) -> Request:
        """A request that goes live, with what held in the branched recording by the place it came to."""
        if not self._kept or branch is None:
            return request
        model = providers.requested_model(request)
        for rule in self._active():
            if "call_id" in rule:
                changed = providers.replace_tool_result(request, rule["call_id"], rule.get("value"))
                request = request if changed is None else changed
            elif rule.get("change") is not None and rule.get("branch") == branch:
                request = reshape(request, RequestChange.from_json(rule["change"])) or request
            if rule.get("model") is not None and model is not None and model == rule.get("instead_of"):
                request = providers.with_model(request, rule["model"])
        return request

    def inherit(self, choice: Choice) -> Choice:
        """What is done with a request, changed where it goes live."""
        if not isinstance(choice, Live):
            return choice
        return replace(choice, send=self.inherited(choice.send, choice.branch))

    def carried(self) -> list[dict[str, Json]]:
        """What holds by now, as JSON for the new recording."""
        mine: list[dict[str, Json]] = [
            {
                "at": at,
                "branch": patch.branch,
                "change": None if patch.change is None else patch.change.to_json(),
                "instead_of": self._model_at(patch),
                "model": patch.model,
            }
            for patch, at in self._own
        ]
        return [*(dict(rule) for rule in self._active()), *mine]

    def _active(self) -> list[Mapping[str, Any]]:
        return [rule for rule in self._kept if int(rule.get("at") or 0) <= self._passed or "call_id" in rule]

    def _model_at(self, patch: AskAgain) -> str | None:
        exchanges = self._recording.exchanges
        return providers.requested_model(exchanges[patch.exchange].request)
