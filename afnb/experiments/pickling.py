"""Whether an agent can be sent to worker processes, and if not, which part of it is to blame."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from afnb.errors import ParameterError
from afnb.experiments.fingerprint import function_name


def require_picklable(value: Any, what: str = "the agent") -> int:
    """Check that ``value`` can be sent to a worker process.

    Parameters
    ----------
    value
        An agent, an upstream, an oracle.
    what
        How to call it in the message.

    Returns
    -------
    int
        Its size when sent, in bytes.

    Raises
    ------
    ParameterError
        It cannot; the message names what it captures that does not pickle, and the way out.

    Examples
    --------
    >>> require_picklable(lambda ctx: 1) > 0
    True
    """
    size, error = _size(value)
    if error is None:
        return size
    f = getattr(value, "f", value)
    blame = [f"{place} ({type(part).__name__})" for place, part in _parts(f) if _size(part)[1] is not None]
    name = function_name(f) if callable(f) else type(value).__name__
    because = f"{', '.join(blame)} does not pickle" if blame else f"{type(error).__name__}: {error}"
    raise ParameterError(
        f"{what} {name} cannot be sent to worker processes: {because}; make it inside the function, or use "
        "the threads backend, which is the default"
    )


def to_bytes(value: Any) -> bytes:
    """``value`` as it is sent to a worker; what a notebook defines goes along.

    Examples
    --------
    >>> import pickle
    >>> pickle.loads(to_bytes(lambda x: x + 1))(1)
    2
    """
    data: bytes = _cloudpickle().dumps(value)
    return data


def _size(value: Any) -> tuple[int, BaseException | None]:
    try:
        return len(_cloudpickle().dumps(value)), None
    except Exception as error:  # noqa: BLE001 - a user's object may raise anything while it is pickled
        return 0, error


def _cloudpickle() -> Any:
    """What joblib's workers are sent with: its own dependency, in older versions a part of it."""
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return importlib.import_module("joblib.externals.cloudpickle")


def _parts(f: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """What a callable carries with it: closed-over and global variables, bound arguments, fields."""
    if isinstance(f, functools.partial):
        for position, part in enumerate(f.args):
            yield f"argument {position}", part
        for key, part in f.keywords.items():
            yield f"argument {key!r}", part
        yield from _parts(f.func)
        return
    bound = inspect.ismethod(f)
    owner = f.__self__ if inspect.ismethod(f) else f
    if inspect.isfunction(f):
        seen = inspect.getclosurevars(f)
        for kind, variables in (("closed-over", seen.nonlocals), ("global", seen.globals)):
            for key, part in variables.items():
                yield f"its {kind} variable {key!r}", part
    elif bound or hasattr(owner, "__dict__"):
        for key, part in vars(owner).items():
            yield f"its field {key!r}", part
