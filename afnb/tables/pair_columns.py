"""What a batch knows of a pair beside its attribution."""

from __future__ import annotations

from afnb.tables.declare import column as _c

PAIR = (
    _c("pair", "text!", "name of the pair in its batch"),
    _c("state", "cat!", "repair, no_cause, unverified, untested, open (budget or interrupt) or error"),
    _c("final", "bool!", "going on with the batch leaves it as it is"),
    _c("stage", "cat!", "how far it came: load, diff, self_check or replays"),
    _c("bad_path", "text", "file of the failing recording"),
    _c("good_path", "text", "file of the good recording that was used"),
    _c("key", "text!", "digest of the recordings and of the agent and oracle of this pair"),
    _c("labels", "json!", "the user's labels, an object of texts"),
    _c("references", "int!", "good recordings that were compared"),
    _c("fork_support", "int", "how many of them name the same fork step"),
    _c("fork_name", "text", "the failing run's step at the fork in short"),
    _c("fork_deed", "text", "what the failing run did at the fork in place of the good run's step"),
    _c("deed", "text", "what the deciding steps did; only with a verified repair"),
    _c("faithful", "bool", "both recordings replay unpatched as they were recorded"),
    _c("patch_recovered", "int", "recovered patched replays of the experiment that carries the verdict"),
    _c("patch_total", "int", "conclusive ones"),
    _c("patch_lost", "int", "inconclusive ones"),
    _c("control_recovered", "int", "recovered control replays of that experiment"),
    _c("control_total", "int", "conclusive ones"),
    _c("control_lost", "int", "inconclusive ones"),
    _c("e_value", "float!", "evidence for an effect, the least of the confirmations; 1 without one"),
    _c("e_bh", "bool!", "reported at a false discovery rate of alpha over the whole batch (e-BH)"),
    _c("seed", "u64", "seed of the pair's replays"),
    _c("warnings", "json!", "warnings, as texts"),
    _c("tokens_spent", "int!", "tokens of all live calls made", "tokens", volatile=True),
    _c("dollars_spent", "float!", "cost of all live calls made", "USD", volatile=True),
)

CARD = (
    _c("pair", "text!", "name of the pair in its batch"),
    _c("card", "json!", "its card: title, badge, parts and what to type next"),
)
