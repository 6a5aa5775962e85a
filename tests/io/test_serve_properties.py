"""What holds for every session, whatever the run, the arm and the order in which branches ask."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core.arm import AnswerPatch, Arm, AskAgain
from afnb.core.cassette import Chunk, Request, Response
from afnb.core.providers import conversation_key
from afnb.core.tape import Tape
from afnb.io.relay import EVENT_END, pieces
from afnb.io.serve import Forward, Refuse, Session

from .talks import Live, Talk, chat, said

FEW = settings(max_examples=60, deadline=None)


def script(user: str, length: int) -> list[Response]:
    return [said("", (f"{user}{n}", "look", {"n": n})) for n in range(length - 1)] + [said(f"{user} done")]


def record_interleaved(lengths: dict[str, int], order: list[str]) -> Tape:
    """Conversations of these lengths, recorded in this order of asking."""
    session = Session(id="par")
    scripts = {user: iter(script(user, length)) for user, length in lengths.items()}
    talks = {user: Talk(session, lambda _, u=user: next(scripts[u]), user) for user in lengths}
    for user in order:
        talks[user].ask()
    return Tape(session.cassette())


@st.composite
def runs(draw: Any) -> tuple[Tape, dict[str, int], list[str]]:
    """A recorded run of up to three parallel conversations, and another order in which they may ask."""
    lengths = {user: draw(st.integers(1, 4)) for user in "abc"[: draw(st.integers(1, 3))]}
    everyone = [user for user, length in lengths.items() for _ in range(length)]
    tape = record_interleaved(lengths, draw(st.permutations(everyone)))
    return tape, lengths, draw(st.permutations(everyone))


@FEW
@given(runs(), st.data())
def test_an_arm_serves_its_prefix_in_any_order_and_nothing_else(
    run: tuple[Tape, dict[str, int], list[str]], data: st.DataObject
) -> None:
    """Each branch gets its own recorded answers up to the branch point, the intervention, then live ones."""
    tape, lengths, order = run
    at = data.draw(st.integers(0, len(tape.cassette) - 1))
    exchange = tape.cassette.exchanges[at]
    user = next(u for u in lengths if conversation_key(chat(u)) == conversation_key(exchange.request))
    prefix = Counter(
        u for e in tape.cassette.exchanges[: at + 1] for u in lengths
        if conversation_key(e.request) == conversation_key(chat(u))
    )  # fmt: skip
    ordinal = prefix[user] - 1
    recorded = data.draw(st.booleans())
    response = exchange.response if recorded else said("patched", ("p", "look", {"n": -1}))
    patch = AnswerPatch(0, at, ordinal, conversation_key(chat(user)), response, recorded)
    session = Session(tape, Arm("arm", (patch,), at))
    live = Live(turns=99)
    talks = {u: Talk(session, live, u) for u in lengths}
    for u in order:
        talks[u].ask()
    report = session.report()
    asked = Counter(order)
    assert report.prefix_diverged is None
    assert report.served == sum(min(asked[u], prefix[u]) for u in lengths)
    assert report.live == sum(max(0, asked[u] - prefix[u]) for u in lengths)
    assert report.requests == report.served + report.live + report.refusals
    assert report.patches_applied == (0,)
    sources = session.cassette().attrs["sources"]
    assert len(sources) == report.served + report.live
    assert sorted(s for s in sources if s != "live") == sorted(
        f"patch:{at}" if n == at else f"tape:{n}" for n in range(at + 1)
    )
    assert [e.idx for e in session.cassette().exchanges] == list(range(len(sources)))


@FEW
@given(st.integers(1, 5), st.data())
def test_asking_again_leaves_everything_before_it_on_the_tape(length: int, data: st.DataObject) -> None:
    tape = record_interleaved({"a": length}, ["a"] * length)
    at = data.draw(st.integers(0, length - 1))
    session = Session(tape, Arm("again", (AskAgain(0, at, at, conversation_key(chat("a"))),), at - 1))
    turns = data.draw(st.integers(0, 3))
    Talk(session, Live(turns=turns), "a").run()
    report = session.report()
    assert (report.served, report.live, report.live_before_branch) == (at, turns + 1, 0)
    assert report.patches_applied == (0,)


@FEW
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
    st.integers(1, 8),
    st.booleans(),
)
def test_interventions_by_position_take_effect_iff_the_run_comes_that_far(
    ordinals: list[int], turns: int, recorded: bool
) -> None:
    """The first acts by its request, the rest by position; what comes between is served or asked live."""
    ordinals = sorted(ordinals)
    answers = script("a", 7)
    tape = record_interleaved({"a": 7}, ["a"] * 7)
    key = conversation_key(chat("a"))
    patches = tuple(
        AnswerPatch(n, n, n, key, answers[n] if recorded else said("", (f"p{n}", "look", {"p": n})), recorded)
        for n in ordinals
    )
    session = Session(tape, Arm("arm", patches, ordinals[-1]))
    live = Live(turns=99)
    talk = Talk(session, live, "a")
    for _ in range(turns):
        talk.ask()
    report = session.report()
    assert report.patches_applied == tuple(n for n in ordinals if n < turns)
    assert report.patches_missing == tuple(n for n in ordinals if n >= turns)
    assert report.served_patched == len(report.patches_applied)
    between = (
        0
        if recorded
        else sum(ordinals[0] < n < min(turns, ordinals[-1]) and n not in ordinals for n in range(7))
    )
    after = max(0, turns - ordinals[-1] - 1)
    assert report.live == between + after
    assert report.live_before_branch == between


@FEW
@given(runs(), st.data())
def test_a_request_that_is_not_on_the_tape_is_never_served(
    run: tuple[Tape, dict[str, int], list[str]], data: st.DataObject
) -> None:
    tape = run[0]
    through = data.draw(st.integers(-1, len(tape.cassette) - 1))
    session = Session(tape, Arm("arm", (), through), live=data.draw(st.booleans()))
    turn = session.decide(chat(data.draw(st.text(min_size=1)) + " never recorded"))
    assert isinstance(turn, Forward | Refuse)
    assert session.report().served == 0
    if through >= 0:
        assert session.report().live == 0, "nothing is spent before the branch point"


KINDS = st.sampled_from(
    ["text/event-stream", "application/x-ndjson", "application/vnd.amazon.eventstream", "application/json"]
)
BITS = st.lists(
    st.sampled_from([b"\n", b"\r", b"data: ", "\u2028".encode(), b"\xe4\xb8", b"\x96", b"x"]), max_size=30
)


@FEW
@given(KINDS, BITS)
def test_cutting_an_answer_into_pieces_loses_nothing(kind: str, bits: list[bytes]) -> None:
    body = b"".join(bits)
    cut = pieces(Response(200, (("content-type", kind),), body))
    if kind == "application/json":
        assert cut is None
        return
    assert cut is not None
    assert b"".join(chunk.data for chunk in cut) == body
    assert all(chunk.data for chunk in cut)
    if kind == "text/event-stream":
        assert len(cut) <= len(EVENT_END.findall(body)) + 1


@FEW
@given(BITS)
def test_recorded_chunks_stay_as_they_are(bits: list[bytes]) -> None:
    chunks = tuple(Chunk(float(i), bit) for i, bit in enumerate(bits))
    response = Response(200, (("content-type", "text/event-stream"),), b"".join(bits), chunks)
    assert pieces(response) == chunks


@FEW
@given(st.lists(st.sampled_from(["/v1/a", "/v1/b"]), max_size=12), st.integers(1, 3))
def test_the_kth_ask_gets_the_kth_answer_and_then_the_last(asks: list[str], recorded: int) -> None:
    recorder = Session()
    for n in range(recorded):
        for path in ("/v1/a", "/v1/b"):
            turn = recorder.decide(Request("GET", path))
            assert isinstance(turn, Forward)
            recorder.complete(turn, Response(200, (), f"{path} {n}".encode()))
    session = Session(Tape(recorder.cassette()))
    seen: Counter[str] = Counter()
    for path in asks:
        turn = session.decide(Request("GET", path))
        assert not isinstance(turn, Forward | Refuse)
        assert turn.response.body == f"{path} {min(seen[path], recorded - 1)}".encode()
        seen[path] += 1
    assert session.report().beyond_recording == sum(max(0, n - recorded) for n in seen.values())
