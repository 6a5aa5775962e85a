"""How often afnb's verdicts are right, on agents whose deciding steps are known because they were planted.

::

    scenarios    a seeded design of plans: what was planted, and the exact effect of every step
    rules        the fixed design that the sequential rule is compared with
    measure      one what_if, one attribution, one case of the rule's table, through the real engine
    run          every measurement as a job; a killed run goes on where it stopped
    score        shares with intervals, from the rows
    page         docs/planted.md and its picture, from the stored results

``python -m benchmarks.planted --help`` from the repository's folder.
"""
