"""Tools of the test agents: pure functions."""

from __future__ import annotations

from typing import Any


def lookup_order(order: str) -> dict[str, Any]:
    return {"order": order, "item": "headset", "price": 129.0, "days_since_delivery": 12}


def customer_history(order: str) -> dict[str, Any]:
    return {"order": order, "customer_since": 2021, "refunds": 0}


def refund_policy(category: str) -> dict[str, Any]:
    return {
        "category": category,
        "return_window_days": {"electronics": 30, "accessories": 7}.get(category, 14),
    }


def issue_refund(order: str, amount: float) -> dict[str, Any]:
    return {"order": order, "refunded": amount, "status": "paid"}


TOOLS = {f.__name__: f for f in (lookup_order, customer_history, refund_policy, issue_refund)}
TASK = "Dana asks for her money back for order 8841. Decide and act."
