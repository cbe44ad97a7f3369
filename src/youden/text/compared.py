"""How many items there are, and on how many of them anything was compared: never the one without the other."""

from __future__ import annotations


def items_compared(n_items: int, n_compared: int, *, by: str = "") -> str:
    """by: by whom, such as ` by every judge`.

    >>> items_compared(40, 40)
    '40 items'
    >>> items_compared(40, 30)
    '40 items, of which 30 were compared'
    """
    said = f"{n_items:,} items"
    return said if n_compared == n_items else f"{said}, of which {n_compared:,} were compared{by}"


def counted(n: int, noun: str) -> str:
    """The number and its noun.

    >>> counted(1, "agent"), counted(2, "agent")
    ('1 agent', '2 agents')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
