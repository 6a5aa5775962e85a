"""What afnb knows of model providers' wire shapes. Pure: bytes in, values or bytes out.

::

    choose      which module reads a request, by path and body
    openai_chat, anthropic, ...   one module a wire shape, all with the same names
    requests    model, tools, conversation, tool results, transcript: of any shape
    answers     text, tool calls, usage; written anew: of any shape
"""

from __future__ import annotations

from afnb.core.providers.answers import outputs_of, provider_error, read_answer, succeeded, write_answer
from afnb.core.providers.base import Answer, ToolCall, ToolResult, Turn, Usage
from afnb.core.providers.requests import (
    conversation_key,
    is_model_request,
    offered_tools,
    provider_of,
    read_tool_results,
    read_turns,
    replace_tool_result,
    request_text,
    requested_model,
    tool_results,
    turns_text,
    with_model,
)

__all__ = [
    "Answer",
    "ToolCall",
    "ToolResult",
    "Turn",
    "Usage",
    "conversation_key",
    "is_model_request",
    "offered_tools",
    "outputs_of",
    "provider_error",
    "provider_of",
    "read_answer",
    "read_tool_results",
    "read_turns",
    "replace_tool_result",
    "request_text",
    "requested_model",
    "succeeded",
    "tool_results",
    "turns_text",
    "with_model",
    "write_answer",
]
