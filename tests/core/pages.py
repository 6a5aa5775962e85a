"""Pages that the renderer tests share: one of each part, hostile text, odd sizes."""

from __future__ import annotations

import random

from afnb.core.page import (
    Badge,
    Bar,
    Bars,
    Code,
    Facts,
    Folded,
    Heading,
    Lane,
    Page,
    Path,
    Table,
    Text,
    Timeline,
)

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "</title></svg><script>alert(1)</script>",
    "</pre></code><b>bold</b>",
    '" onmouseover="alert(1)',
    "&amp; &lt;",
)

ATTRIBUTION = Page(
    "attribution of refund-bad against refund-good",
    Badge("verified: recovered", "good"),
    (
        Text(
            "With everything before step 3 as recorded, changing this answer made the run recover more often."
        ),
        Timeline(
            (
                Lane("sync", "0 llm", "0 llm"),
                Lane("sync", "1 lookup_order", "1 lookup_order"),
                Lane("near", "2 llm", "2 llm"),
                Lane("fork", "3 refund_policy", "3 refund_policy", "outputs.window_days differs"),
                Lane("log", "4 escalate", None),
                Lane("model", None, "4 issue_refund"),
                Lane("near", "5 llm", "5 llm"),
            ),
            "the two runs",
        ),
        Bars(
            (
                Bar("patched: step 3", 9, 10, 0.6, 0.98, "good"),
                Bar("control: step 3 as recorded", 1, 10, 0.02, 0.4),
            ),
            "recovered replays per arm",
        ),
        Path("evidence: the effect is above 0", (3.6, 11.2, 8.1, 29.4), 20.0),
        Path("evidence: the effect is below 0.5", (1.2, 0.6, 0.31, 0.12), 20.0),
        Facts((("origination", "step 3 refund_policy"), ("cost", "14 replays used, 16 spent"))),
        Table(
            ("arm", "index", "recovery", "reason"),
            (
                ("patch", "0", "recovered", ""),
                ("control", "0", "not_recovered", ""),
                ("patch", "1", "inconclusive", "prefix_diverged at exchange 4"),
            ),
            "replays",
            20,
            ("good", "plain", "warn"),
        ),
        Heading("Reproduce"),
        Folded("as code", (Code("a = afnb.attribute(bad, good, agent=agent)", "in a cell"),)),
    ),
    ("afnb.explore(a)", "a.replays.to_pandas()"),
)

ODD = Page(
    "odd",
    None,
    (
        Timeline(()),
        Bars(()),
        Bars((Bar("none", 0, 0), Bar("all", 3, 3, 0.4, 1.0))),
        Path("empty", (), 20.0),
        Path("zeros", (0.0, 0.0), 20.0),
        Path("endless", (1.0, float("inf")), 20.0),
        Path("undefined", (float("nan"),), 0.0),
        Table(("a", "b"), ()),
        Table((), ()),
        Facts(()),
        Text(""),
        Timeline((Lane("model", None, "0 a"),)),
        Timeline((Lane("patched", "0 a", "0 a", "value replaced"),), lanes=("recorded", "patched")),
    ),
)


def hostile(text: str) -> Page:
    """One page with ``text`` in every place a string can go."""
    return Page(
        text,
        Badge(text, "warn"),
        (
            Text(text, "bad"),
            Facts(((text, text),)),
            Table((text,), ((text,),), text),
            Bars((Bar(text, 1, 2),), text),
            Timeline((Lane("fork", text, text, text), Lane("sync", text, None)), text, (text, text)),
            Path(text, (1.0,), 2.0, text, text),
            Code(text, text),
            Heading(text),
            Folded(text, (Text(text),)),
        ),
        (text,),
    )


def long_timeline(count: int, share: float, seed: int = 1) -> Timeline:
    """``count`` ticks of which ``share`` differ, with one fork at two thirds."""
    draw = random.Random(seed)
    ticks = []
    for i in range(count):
        kind = "sync" if draw.random() > share else draw.choice(["log", "model", "near", "unlike"])
        name = f"{i} tool_{i % 7}"
        ticks.append(Lane(kind, None if kind == "model" else name, None if kind == "log" else name))
    ticks[count * 2 // 3] = Lane(
        "fork", f"{count * 2 // 3} tool_x", f"{count * 2 // 3} tool_y", "outputs differ"
    )
    return Timeline(tuple(ticks), f"{count:,} moves")
