from __future__ import annotations

import copy
import doctest
import json
import pickle
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core import jsonvalue
from afnb.core.jsonvalue import MISSING, dumps, equal, first_difference, loads, path_text
from afnb.errors import InputError, ParameterError

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"))
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def test_examples() -> None:
    assert doctest.testmod(jsonvalue).failed == 0


@given(values)
def test_round_trip(value: object) -> None:
    text = dumps(value)
    back = loads(text)
    assert equal(back, value)
    assert first_difference(back, value) is None
    assert equal(loads(text.encode()), value)
    assert dumps(back) == text


@given(values, values)
def test_equal_and_first_difference_agree(a: object, b: object) -> None:
    found = first_difference(a, b)
    assert equal(a, b) == (found is None) == equal(b, a)
    if found is not None:
        assert not equal(found.a, found.b)
        x, y = a, b
        for part in found.parts:
            x, y = at(x, part), at(y, part)
        assert equal(x, found.a)
        assert equal(y, found.b)


def at(value: object, part: str | int) -> object:
    if isinstance(value, dict):
        return value.get(part, MISSING)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return MISSING


@given(values)
def test_typed_equality_is_finer_than_python(value: object) -> None:
    assert equal(value, copy.deepcopy(value))


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("1", "1.0", False),
        ("true", "1", False),
        ("false", "0", False),
        ("0", "-0.0", False),
        ("0", "-0", False),
        ("-0", "-0.0", True),
        ("-0", "0.0", True),
        ("-1", "-1.0", False),
        ("1e2", "100.0", True),
        ("18446744073709551616", "18446744073709551617", False),
        ("9007199254740993", "9007199254740992", False),
        ('{"a":1,"b":2}', '{"b":2,"a":1}', True),
        ("[1,2]", "[2,1]", False),
        ('{"a":null}', "{}", False),
        ('"e\\u0301"', '"\\u00e9"', False),
        ('"\\u00e9"', '"é"', True),
    ],
)
def test_typed_equality(a: str, b: str, same: bool) -> None:
    assert equal(loads(a), loads(b)) is same
    assert equal([{"x": loads(a)}], [{"x": loads(b)}]) is same


@pytest.mark.parametrize("digits", [641, 4300, 4301, 20_000])
@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_of_any_length(digits: int, sign: str) -> None:
    text = sign + "".join(str(i * 7 % 9 + 1) for i in range(digits))
    assert dumps(loads(text)) == text
    assert loads(f"[{text}]")[0] % 9 == (int(sign + "1") * sum(map(int, text.lstrip("-")))) % 9
    assert dumps({"a": [loads(text)]}) == f'{{"a":[{text}]}}'


@given(st.integers(min_value=0, max_value=3000), st.integers(min_value=-2, max_value=2))
@settings(max_examples=60)
def test_integers_near_powers_of_ten(power: int, off: int) -> None:
    value = 10**power + off
    assert loads(dumps(value)) == value
    assert dumps(value) == str(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("NaN", "NaN is not a JSON number"),
        ("[Infinity]", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("1e400", "1e400 is too large"),
        ("-1e400", "too large"),
        ("1 2", "line 1 column 3"),
        ("{}\n{}", "line 2 column 1"),
        ("", "line 1 column 1"),
        ("[1,]", "not JSON"),
        ("'a'", "not JSON"),
        ('"a\nb"', "not JSON"),
        ("01", "not JSON"),
        ("\ufeff{}", "byte order mark"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a":\n"\xff"}', "byte 0xff at offset 7 (line 2)"),
        ("[" * 200_000, "nested too deeply"),
        ("[" * 200_000 + "]" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
    ],
)
def test_what_is_refused(text: str | bytes, says: str) -> None:
    with pytest.raises(InputError) as caught:
        loads(text)
    assert says in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_utf16_is_not_guessed() -> None:
    with pytest.raises(InputError):
        loads('{"a": 1}'.encode("utf-16"))


def test_deep_values_compare_and_write_without_recursion() -> None:
    deep, other = nested(50_000), nested(50_000)
    assert equal(deep, other)
    assert first_difference(deep, other) is None
    assert dumps(deep) == "[" * 50_001 + "]" * 50_001
    assert not equal(deep, nested(49_999))
    assert sys.getrecursionlimit() < 50_000


def test_last_duplicate_key_wins() -> None:
    assert loads('{"a":1,"a":[2],"b":{"c":1,"c":null}}') == {"a": [2], "b": {"c": None}}


def test_lone_surrogates_survive_and_can_be_encoded() -> None:
    text = loads('"\\ud800 \\udfff é"')
    written = dumps({"k\udc00": text})
    written.encode("utf-8")
    assert written == '{"k\\udc00":"\\ud800 \\udfff é"}'
    assert loads(written) == {"k\udc00": text}
    assert loads('"\\ud83d\\ude00"') == "😀"


def test_control_characters_and_separators() -> None:
    value = "".join(map(chr, range(32))) + '"\\\x7f\u2028\u2029'
    assert loads(dumps(value)) == value
    assert json.loads(dumps(value)) == value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (float("nan"), "nan at the top"),
        ({"a": [1, float("inf")]}, "inf at a[1]"),
        ({"a": MISSING}, "a Missing at a"),
        ({"a": {1: 2}}, "the key 1 at a is a int"),
        ([{True: 2}], "the key True"),
        ({"s": {1}}, "a set at s"),
        ([b"x"], "a bytes at [0]"),
    ],
)
def test_what_cannot_be_written(value: object, says: str) -> None:
    with pytest.raises(ParameterError) as caught:
        dumps(value)
    assert says in str(caught.value)


def test_a_cycle_is_named_and_sharing_is_not_a_cycle() -> None:
    loop: list[object] = []
    loop.append({"x": loop})
    with pytest.raises(ParameterError, match="contains itself"):
        dumps(loop)
    shared = [1]
    assert dumps([shared, shared, (shared,)]) == "[[1],[1],[[1]]]"
    with pytest.raises(ParameterError):
        dumps([shared, shared, float("nan")])


@pytest.mark.parametrize(
    ("a", "b", "path", "x", "y"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, "b", MISSING, 2),
        ({"a": 1, "b": 2}, {"a": 1}, "b", 2, MISSING),
        ([1, 2, 3], [1, 2], "[2]", 3, MISSING),
        ([1, 2], [1, 2, 3], "[2]", MISSING, 3),
        ([1, 2, 9], [1, 3], "[1]", 2, 3),
        ({"z": 1, "a": 2}, {"a": 3, "z": 4}, "z", 1, 4),
        ({"k": {"a.b": [0]}}, {"k": {"a.b": [0.0]}}, 'k["a.b"][0]', 0, 0.0),
        (1, 1.0, "", 1, 1.0),
        (MISSING, None, "", MISSING, None),
        ([True], [1], "[0]", True, 1),
    ],
)
def test_first_difference(a: object, b: object, path: str, x: object, y: object) -> None:
    found = first_difference(a, b)
    assert found is not None
    assert found.path == path == path_text(found.parts)
    assert (type(found.a), found.a) == (type(x), x)
    assert (type(found.b), found.b) == (type(y), y)


def test_offset_of_a_text_difference() -> None:
    found = first_difference({"c": "abcdef"}, {"c": "abcXef"})
    assert found is not None
    assert found.offset == 3
    shorter = first_difference("abc", "ab")
    assert shorter is not None
    assert shorter.offset == 2
    typed = first_difference("1", 1)
    assert typed is not None
    assert typed.offset is None


@pytest.mark.parametrize(("levels", "reads"), [(1, True), (127, True), (128, False), (500, False)])
@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("leaf", ["1", '"x"'])
def test_portable_depth(levels: int, reads: bool, opens: str, closes: str, leaf: str) -> None:
    text = opens * levels + leaf + closes * levels
    loads(text)
    if reads:
        assert equal(loads(text, portable=True), loads(text))
    else:
        with pytest.raises(InputError, match="more than 127 levels"):
            loads(text, portable=True)


@pytest.mark.parametrize(
    "text", ['"\\ud800"', '{"\\udc00": 1}', '[[{"a": "x\\udfff"}]]', '{"k": {"\\ud83d": []}}']
)
def test_portable_text(text: str) -> None:
    loads(text)
    with pytest.raises(InputError, match="half of a surrogate pair"):
        loads(text, portable=True)


def test_portable_pairs_are_fine() -> None:
    assert loads('"\\ud83d\\ude00 é"', portable=True) == "😀 é"


def test_objects_can_be_made_by_the_caller() -> None:
    assert loads('[{"a": 1, "a": -0}]', on_object=lambda pairs: pairs) == [[("a", 1), ("a", -0.0)]]
