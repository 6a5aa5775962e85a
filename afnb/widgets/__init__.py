"""The explorer: one failure looked at, and experimented on, in a notebook.

::

    explore(x) ─ subject ─ bench ──────────── view ─── canvas
                 what is   state and trials,  forms    the time line (timeline.js)
                 shown     no widget in it    and HTML

What happens is decided in ``bench`` and below, in plain Python. ``view`` shows it with ipywidgets, ``canvas``
draws the two runs with anywidget; neither computes a result.
"""
