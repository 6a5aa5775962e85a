"""One limiter over all workers of an experiment: what a provider asks of one, all of them keep to."""

from __future__ import annotations

from afnb.io.ratelimit import RateLimit
from afnb.io.upstream import LiveUpstream, RoutedUpstream, Upstream


def under_one_limit(upstream: Upstream) -> Upstream:
    """The same upstream, a live provider in it with a limiter that all workers share.

    A limiter that was given is kept. One that was not sets no pace: it holds every worker back for as long
    as ``Retry-After`` asks for.

    Examples
    --------
    >>> under_one_limit(LiveUpstream("https://api.openai.com")).limit.per_minute is None
    True
    """
    if isinstance(upstream, LiveUpstream) and upstream.limit is None:
        return LiveUpstream(
            upstream.origin,
            timeout_s=upstream.timeout_s,
            retries=upstream.retries,
            trust_env=upstream.trust_env,
            limit=RateLimit(),
        )
    if isinstance(upstream, RoutedUpstream):
        return RoutedUpstream({name: under_one_limit(one) for name, one in upstream.routes.items()})
    return upstream
