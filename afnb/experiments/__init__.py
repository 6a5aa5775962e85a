"""Replays, experiments and attributions: the room that starts agents and joblib workers.

::

    recording ─ preflight ─ self-check ─ arms ─ replays in rounds ─ consensus ─ Experiment
                                                        │
    diff ─ candidates ─ precondition ─ ddmin ─ confirmation on fresh replays ─ Attribution
"""
