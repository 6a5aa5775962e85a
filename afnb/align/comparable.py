"""Whether two runs have anything in common, so that a fork between them means something.

Every pair of runs has an alignment and nearly every pair a fork; between two runs of different tasks
both are noise, and the fork comes out as certain. The rule here says so only when nothing speaks for a
comparison: a short run, a shared task, a shared first input, one aligned pair of steps alike in content
or a few shared words are each enough.

Words of content are the ASCII words of at least three letters in the names and output values of steps
(keys of objects are structure, not content), without function words and the generic words of agent
recordings. On recorded runs of one task the smaller run shares half of its words with the other or
more; runs of different agents and tasks share at most a quarter, on average a tenth.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from afnb.align.cost import TEXT_CHARS
from afnb.align.moves import Move
from afnb.core.jsonvalue import MISSING, equal
from afnb.core.run import Run, Step

MIN_STEPS = 2
MIN_WORDS = 8
FEW_WORDS = 12
MIN_SHARE = 0.2

_WORD = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{3,}(?![A-Za-z0-9])")
_COMMON_WORDS = """
    the and for are was were with that this these those from have has had not but you your his her its our
    their they them she will would can could should may might must shall been being into out about over under
    then than there here when where which who whom whose what why how all any some each every more most other
    such only own same too very just also now new one two three use used using get got let make made need want
    see per via yes none null true false please okay well like time first next last find found following
    step steps error result results value data text name type content role message messages tool tools call
    calls function user human assistant system agent llm model input output inputs outputs arguments status
    """
_COMMON = frozenset(_COMMON_WORDS.split())


def incomparable(good: Run, bad: Run, moves: Sequence[Move], tau: float) -> str | None:
    """Why two runs cannot be compared, or None when something speaks for it.

    All of these must hold: each run has at least two steps; the tasks are not the same text; the first
    steps' inputs are not the same value; no aligned pair in sync shares a word of content; and the
    smaller run has at least eight words of content, of which the other run has none (or less than a
    fifth, from twelve words on).
    """
    if min(len(good), len(bad)) < MIN_STEPS:
        return None
    if good.task and good.task == bad.task:
        return None
    first = (good.steps[0].inputs, bad.steps[0].inputs)
    if first[0] not in (MISSING, None, "") and equal(*first):
        return None
    words_good = [content_words(step) for step in good.steps]
    words_bad = [content_words(step) for step in bad.steps]
    for move in moves:
        if move.good_step is None or move.bad_step is None or not move.in_sync(tau):
            continue
        if words_good[move.good_step] & words_bad[move.bad_step]:
            return None
    all_good, all_bad = frozenset().union(*words_good), frozenset().union(*words_bad)
    size, shared = min(len(all_good), len(all_bad)), len(all_good & all_bad)
    if size < MIN_WORDS or (shared > 0 and (size < FEW_WORDS or shared >= MIN_SHARE * size)):
        return None
    return (
        f"the two runs have nothing in common: no aligned pair of steps is alike, and the runs share "
        f"{shared} of {size} words; compare runs of the same agent on the same task"
    )


def content_words(step: Step) -> frozenset[str]:
    """The words of content of a step's name and of the head of its outputs.

    Examples
    --------
    >>> sorted(content_words(Step(0, "tool", "search", outputs={"status": "ok", "page": "Census of Lisbon"})))
    ['census', 'lisbon', 'search']
    """
    found = set(_words(step.name))
    left = TEXT_CHARS
    for text in _leaves(step.outputs):
        found.update(_words(text[:left]))
        left -= len(text)
        if left <= 0:
            break
    return frozenset(found)


def _words(text: str) -> Iterator[str]:
    return (low for word in _WORD.findall(text) if (low := word.lower()) not in _COMMON)


def _leaves(value: Any) -> Iterator[str]:
    """The texts in a value, in reading order."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            stack.extend(reversed(list(item.values())))
        elif isinstance(item, list | tuple):
            stack.extend(reversed(item[: TEXT_CHARS + 1]))
