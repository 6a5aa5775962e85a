"""What was shown, from which evidence: interventions, oracles, consensus rules and minimal causes.

::

    interventions   Graft, Edit, Resample  + recording       -> Arm, Arm        (what a replay serves)
    oracles         a replayed Run                           -> Judgement       (did it recover)
    consensus       outcomes of replays, in index order      -> Decision        (is it verified)
      evidence        the bets behind it: e-values of one block of replays
      interval        Wilson intervals and the anytime-valid interval of the effect
      sentences       the words that are true of a decision
    minimise        verdicts on sets of steps                -> a minimal repair
    bisect          outcomes of replays at branch points     -> where recovery is lost
    planning        assumed rates                            -> how many replays it will take
    ebh             one e-value per run of a batch           -> which to report

All of it is pure: no files, sockets, clocks or threads, and no randomness but from a seed that is
passed in. The room that starts agents drives these machines step by step.
"""
