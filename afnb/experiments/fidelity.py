"""``Fidelity``: what the self-check of a recording came to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The self-check: one unpatched replay of a recording from its tape alone.

    ``ok`` needs something served, nothing missed, everything recorded asked for, and the same answer.
    """

    recording: str
    ok: bool
    recorded: int
    served: int
    missed: int
    same_answer: bool
    rules: tuple[tuple[str, int], ...] = ()
    reason: str | None = None
    converges: bool | None = None

    def sentence(self) -> str:
        """One line for a card."""
        matched = "".join(f", {count} matched by {rule}" for rule, count in self.rules if rule != "key_order")
        if self.ok:
            return (
                f"{self.recording}: {self.served} of {self.recorded} served, 0 missed, same answer{matched}"
            )
        return f"{self.recording}: failed, {self.reason}"
