"""``--upstream`` and ``--base-url-env``: which providers there are, and how the agent is led to them."""

from __future__ import annotations

import argparse
from typing import Any

from afnb.errors import ParameterError

KNOWN = "openai, anthropic, gemini, mistral, ollama"
DEFAULT_VARIABLE = "OPENAI_BASE_URL"


def add_upstream(parser: Any, *, required: bool = False, help: str) -> None:
    """``--upstream``, once or several times."""
    parser.add_argument(
        "--upstream",
        metavar="URL",
        action="append",
        required=required,
        help=f"{help}: its origin, a name ({KNOWN}), or NAME=URL where there are several (repeatable)",
    )


def add_tool_upstream(parser: Any) -> None:
    """``--tool-upstream``: HTTP services that are no model."""
    parser.add_argument(
        "--tool-upstream",
        metavar="NAME=URL",
        action="append",
        default=[],
        help="an HTTP service that the agent uses as a tool, led to by --base-url-env VARIABLE=NAME; in "
        "replays its GET requests may go live after the branch point, others only if --allow-tools names it "
        "(repeatable)",
    )


def add_base_url(parser: Any) -> None:
    """``--base-url-env``, once or several times."""
    parser.add_argument(
        "--base-url-env",
        metavar="VARIABLE",
        action="append",
        help="variable the agent reads its base URL from (default: those of the recording, or of the "
        f"upstreams that are known by name, else {DEFAULT_VARIABLE}; repeat for several); VARIABLE=NAME "
        "leads it to the upstream of that name, VARIABLE=/v1 or VARIABLE=NAME/v1 says what its SDK expects "
        "after the origin",
    )


def names_of(args: argparse.Namespace) -> dict[str, str]:
    """The upstreams that are given by name, each with its origin.

    Raises
    ------
    ParameterError
        A name twice, a name without an origin, or several upstreams of which one has no name.
    """
    from afnb.io.known import KNOWN_UPSTREAMS
    from afnb.io.live import without_secrets

    given = list(args.upstream or ())
    named: dict[str, str] = {}
    for text in given:
        name, equals, origin = text.partition("=")
        if not equals and name in KNOWN_UPSTREAMS:
            origin = KNOWN_UPSTREAMS[name].origin
        elif not equals or "/" in name or ":" in name:
            if len(given) > 1:
                raise ParameterError(
                    f"--upstream {without_secrets(text)!r} has no name, and there are {len(given)} of them; "
                    "write NAME=URL"
                )
            continue
        _put(named, name, origin, "--upstream")
    for text in getattr(args, "tool_upstream", ()):
        name, _, origin = text.partition("=")
        _put(named, name, origin, "--tool-upstream")
    return named


def _put(named: dict[str, str], name: str, origin: str, option: str) -> None:
    from afnb.io.live import without_secrets

    if not name or not origin or not name.replace("-", "").replace("_", "").isalnum():
        shown = without_secrets(f"{name}={origin}")
        raise ParameterError(f"{option} {shown} is not NAME=URL, such as local=http://127.0.0.1:8000")
    if name in named:
        raise ParameterError(f"two upstreams are called {name!r}; give each its own name")
    named[name] = origin


def upstream_of(args: argparse.Namespace) -> Any:
    """What the library takes as ``upstream``: None, an origin, or names with an origin each.

    Raises
    ------
    ParameterError
        See ``names_of``; or there are tools and no provider.
    """
    from afnb.io.upstream import HttpTool

    named = names_of(args)
    tools = [text.partition("=")[0] for text in getattr(args, "tool_upstream", ())]
    if not tools and len(named) <= 1:
        plain = (args.upstream or [None])[0]
        return next(iter(named.values()), plain)
    if not args.upstream:
        raise ParameterError("--tool-upstream is given without --upstream; name the model's provider as well")
    if len(named) == len(tools):
        named = {"model": args.upstream[0], **named}
    return {name: HttpTool(origin) if name in tools else origin for name, origin in named.items()}


def base_urls_of(args: argparse.Namespace) -> dict[str, str]:
    """What the library takes as ``base_url_env``: variables, with an upstream's name, a path, or neither.

    Raises
    ------
    ParameterError
        A variable leads to an upstream that is not given, or a tool is led to by none.
    """
    from afnb.io.known import KNOWN_UPSTREAMS

    named = names_of(args)
    tools = [text.partition("=")[0] for text in getattr(args, "tool_upstream", ())]
    found: dict[str, str] = {}
    for text in args.base_url_env or ():
        variable, _, where = text.partition("=")
        upstream = where.partition("/")[0]
        if upstream and named and upstream not in named:
            known = ", ".join(named) or "none"
            raise ParameterError(
                f"--base-url-env {text}: no upstream is called {upstream!r}; there are {known} (--upstream "
                f"{upstream}=URL)"
            )
        found[variable] = where
    for name in named:
        led = any(where.partition("/")[0] == name for where in found.values())
        if led or name in tools:
            continue
        variables = KNOWN_UPSTREAMS[name].variables if name in KNOWN_UPSTREAMS else ()
        found.update((variable, name) for variable in variables if variable not in found)
    for name in tools:
        if not any(where.partition("/")[0] == name for where in found.values()):
            raise ParameterError(
                f"nothing leads the agent to the tool {name!r}; name the variable it reads its address from: "
                f"--base-url-env VARIABLE={name}"
            )
    if all(where.partition("/")[0] in tools for where in found.values()):
        found = {**(led_by(args) or {DEFAULT_VARIABLE: ""}), **found}
    return found


def led_by(args: argparse.Namespace) -> dict[str, str]:
    """The variables of the recording that is replayed; empty if there is none, or it cannot be read."""
    from afnb.core.cassette import Cassette
    from afnb.errors import AfnbError
    from afnb.io.environment import recorded_base_urls
    from afnb.io.load import load

    source = getattr(args, "bad", None) or getattr(args, "recording", None)
    try:
        found = load(source) if source else None
    except (AfnbError, OSError):  # said where it is opened for its own sake
        return {}
    return recorded_base_urls(found) if isinstance(found, Cassette) else {}
