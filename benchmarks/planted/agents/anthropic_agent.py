"""A planted agent on the anthropic SDK: the plan comes from the environment, the provider's URL too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from anthropic import Anthropic

from afnb.testing.planted import play, read_plan

plan = read_plan(os.environ["PLAN"])
client = Anthropic(api_key="sk-ant-planted", max_retries=2)


def ask(body: dict[str, Any]) -> Mapping[str, Any]:
    """One request through the SDK."""
    answer: Mapping[str, Any] = client.messages.create(**body).model_dump()
    return answer


print(play(plan, ask, int(os.environ["AFNB_SEED"])))
