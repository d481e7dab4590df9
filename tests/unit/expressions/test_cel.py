"""CEL: what it makes, what it refuses, and that it ends."""

import json
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.expressions import LONGEST, ExpressionError, blank_literals, find_paths
from mainspring.errors import MissingExtra
from mainspring.expressions.cel import CelExpressions

NAMES = frozenset({"input", "steps.extract.result", "steps.extract.status"})
EXPRESSIONS = CelExpressions()


def make(text: str, **values: object) -> object:
    """Evaluate an expression; a value is named with __ for a dot."""
    given_values = {name.replace("__", "."): value for name, value in values.items()}
    return EXPRESSIONS.compile(text, NAMES).evaluate(given_values)


def refusal(text: str) -> str:
    with pytest.raises(ExpressionError) as caught:
        EXPRESSIONS.compile(text, NAMES)
    return str(caught.value)


def error(text: str, **values: object) -> str:
    with pytest.raises(ExpressionError) as caught:
        make(text, **values)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("steps.extract.result.files.size() > 1", True),
        ("steps.extract.result.files.filter(f, f.endsWith('.csv'))", ["a.csv"]),
        (
            "{'first': steps.extract.result.files[0], 'n': 1.5, 'none': null}",
            {"first": "a.csv", "n": 1.5, "none": None},
        ),
        ("has(steps.extract.result.missing) ? 1 : 2", 2),
        ("string(timestamp('2026-01-02T03:04:05Z'))", "2026-01-02T03:04:05Z"),
    ],
)
def test_an_expression_makes_a_value(text: str, made: object) -> None:
    assert make(text, steps__extract__result={"files": ["a.csv", "b.txt"]}) == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps.laod.result", "at column 11: undeclared reference to 'steps.laod.result'"),
        ("steps.extract.reslut", "at column 14: undeclared reference to 'steps.extract.reslut'"),
        ("input.a +", "at column 10: it ends too soon"),
        ("'abc' + 1", "at column 7: found no matching overload for '_+_' applied to '(string, int)'"),
        ("\n input +* 1", "at line 2, column 9: extraneous input '*'"),
        ("(" * 40 + "1" + ")" * 40, "Expression recursion limit exceeded. limit: 32"),
        ("x" * (LONGEST + 1), f"has {LONGEST + 1} characters; at most {LONGEST} fit"),
    ],
)
def test_a_refusal_has_its_place(text: str, message: str) -> None:
    assert refusal(text) == message


def test_text_that_is_no_unicode_is_refused() -> None:
    assert refusal("'\ud800'")
    assert error("input", input="\ud800")
    assert error("input", input={"\ud800": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "divide by zero"),
        ("input.missing", 'Key not found in map : "missing"'),
        ("input.a && true", "No matching overloads found : _&&_"),
        ("input.a.b", "Applying SELECT to non-message type"),
        ("steps.extract.result", 'No value with name "steps.extract.result" found in Activation'),
    ],
)
def test_an_error_is_raised_and_not_taken_for_a_value(text: str, message: str) -> None:
    assert error(text, input={"a": 1}).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("duration('1h')", "makes a timedelta, which JSON does not have; string(…) makes text of it"),
        ("b'a'", "makes a bytearray, which JSON does not have; string(…) makes text of it"),
        ("1.0 / 0.0", "makes a number that is not finite, which JSON does not have"),
        ("{1: 2}", "makes an object with keys that are no text, which JSON does not have"),
    ],
)
def test_what_json_does_not_have_is_an_error(text: str, message: str) -> None:
    assert error(text) == message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("input.map(x, input)", list(range(9000))),
        ("[input].map(i, i.map(x, i))", list(range(9000))),
        ("input.all(x, input.all(y, input.all(z, z >= 0)))", list(range(1000))),
        ("input.l.map(x, input.s + input.s)", {"l": [1] * 2000, "s": "x" * 60_000}),
        ("['aaaaaaaa']" + ".map(a, a + a)" * 25, None),
        ("input.all(i, !i.matches('(x+x+)+y'))", ["x" * 60] * 20_000),
    ],
)
def test_it_ends_soon_whatever_is_asked_for(text: str, value: object) -> None:
    begin = time.process_time()
    assert error(text, input=value)
    assert time.process_time() - begin < 2


def test_a_thousand_objects_may_be_gone_over() -> None:
    files = [{"name": f"file-{number:06}.csv", "size": number, "ok": True} for number in range(1000)]
    assert make("input.filter(f, f.ok).map(f, f.name)", input=files) == [one["name"] for one in files]


@pytest.mark.parametrize("value", ["a\0b", {"a\0b": 1}, [{"a": ["\0"]}]])
def test_text_with_a_nul_is_refused_not_cut_off(value: object) -> None:
    assert error("input", input=value) == "a value has text with a NUL, which expressions cannot read"
    assert make("input", input="a\\u0000b") == "a\\u0000b"


def test_values_that_nest_too_deep_are_refused() -> None:
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    assert error("input", input=deep)


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner),
    max_leaves=20,
)


@given(_JSON)
def test_values_pass_as_they_are(value: object) -> None:
    assert json.dumps(make("input", input=value), sort_keys=True) == json.dumps(value, sort_keys=True)
    assert json.dumps(make("[input][0]", input=value), sort_keys=True) == json.dumps(value, sort_keys=True)


@given(st.text())
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    with suppress(ExpressionError):
        EXPRESSIONS.compile(text, NAMES)


def test_the_library_is_loaded_with_the_first_expression() -> None:
    code = (
        "import sys; from mainspring.expressions.cel import CelExpressions as C; c = C();"
        "assert 'cel_expr_python' not in sys.modules; c.compile('1', frozenset());"
        "assert 'cel_expr_python' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    with pytest.raises(MissingExtra, match=r"pip install 'mainspring\[cel\]'"):
        CelExpressions().compile("1", frozenset())


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("steps.a.result.files.size() > 3 && 'steps.b' == \"x\" // steps.c", ["steps.a.result.files@1"]),
        ("steps . a .result", ["steps.a.result@1"]),
        ("size(steps.a.result)", ["steps.a.result@6"]),
        ("x.y(steps.b.error)", ["x@1", "steps.b.error@5"]),
        ("input.a['b'].c", ["input.a@1"]),
        (r"r'\' + steps.a.status", ["steps.a.status@8"]),
        (r"'\'' + steps.a.status + 'b'", ["steps.a.status@8"]),
        ("'''a' steps.q ''' + steps.r.result", ["steps.r.result@21"]),
        ("'no end steps.a", []),
        ("1.5 + foo", ["foo@7"]),
    ],
)
def test_the_names_that_an_expression_uses_are_found_without_the_library(text: str, paths: list[str]) -> None:
    assert [f"{'.'.join(one.parts)}@{one.at}" for one in find_paths(text)] == paths


@given(st.text(st.sampled_from("ab.'\"\\r/\n +")))
def test_blanks_keep_their_places(text: str) -> None:
    assert len(blank_literals(text)) == len(text)
