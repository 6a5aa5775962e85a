"""How a function without a name is shown: by its own source, where that can be had.

The only thing read is the source of the program that is running, as a traceback reads it.
"""

from __future__ import annotations

import ast
import linecache
import types
from typing import Any

_SHOWN = 120


def is_lambda(f: Any) -> bool:
    """Whether ``f`` is a function without a name.

    Examples
    --------
    >>> is_lambda(lambda run: True), is_lambda(len)
    (True, False)
    """
    return isinstance(f, types.FunctionType) and f.__name__ == "<lambda>"


def lambda_source(f: Any) -> str | None:
    """The source of a lambda on one line, cut after 120 characters; None where it cannot be told.

    It is told apart from others on its line by where its body stands.

    Examples
    --------
    >>> print(lambda_source(eval("lambda run: True")))
    None
    """
    if not is_lambda(f):
        return None
    code = f.__code__
    source = "".join(linecache.getlines(code.co_filename, f.__globals__))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and _is_of(node, code)]
    if len(found) != 1:
        return None
    text = " ".join((ast.get_source_segment(source, found[0]) or "").split())
    return (text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}...") or None


def _is_of(node: ast.Lambda, code: types.CodeType) -> bool:
    """Whether ``code`` was compiled from this expression, as far as lines, columns and arguments tell."""
    if node.lineno != code.co_firstlineno:
        return False
    arguments = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    body = node.body
    place = (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset)
    return list(code.co_varnames[: code.co_argcount]) == arguments and place in set(code.co_positions())
