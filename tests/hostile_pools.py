"""Make pools with ids and texts that would be interpreted by YAML, Markdown, HTML, paths or spreadsheets if not escaped."""

from __future__ import annotations

import numpy as np

from small_pools import make_pool
from youden.types import Agent, Item, Pool

HOSTILE_IDS = (
    "007",
    "NA",
    "meta-llama/Llama-3.1-8B",
    "*a &b {c: [pwned]} # x",
    "]](javascript:alert(1))|<script>",
    "CON",
    "../../etc/passwd",
    "true: !!python/object",
)

HOSTILE_TEXT = "</script><img src=x onerror=\"document.title='pwned'\">{{7*7}}${7*7}\x1b[31m\u202egnp.exe'\"&amp;"
HOSTILE_MARKUP_ID = HOSTILE_TEXT.replace("\x1b", "")
"""Ids with a control character are refused on reading."""


def make_pool_with_hostile_ids() -> Pool:
    pool = make_pool(len(HOSTILE_IDS), 12)
    agents = tuple(
        Agent(id_, group="<b>g</b>|", meta={"n": 1} if number % 2 else {"n": "one", "more": [1, "x", None]})
        for number, id_ in enumerate(HOSTILE_IDS)
    )
    items = tuple(Item(item.id, prompt="---\npwned: true\n---\n# pwned") for item in pool.items)
    return Pool(agents=agents, items=items, texts=pool.texts, name="pool: *pwned*")


def make_pool_with_hostile_texts(*, n_agents: int = 4, n_items: int = 8, length: int = 0) -> Pool:
    """Make a pool whose ids, groups, prompts and responses contain markup; one response has `length` more characters."""
    pool = make_pool(n_agents, n_items)
    texts = pool.texts.copy()
    for cell in np.ndindex(texts.shape):
        texts[cell] = f"{texts[cell]} {HOSTILE_TEXT}<script>document.title='pwned'</script>"
    texts[0, 0] += "<b>long</b> " * (length // 12)
    return Pool(
        agents=tuple(
            Agent(f"{agent.id}{HOSTILE_MARKUP_ID}", group=f"{agent.group}{HOSTILE_MARKUP_ID}") for agent in pool.agents
        ),
        items=tuple(
            Item(f"{item.id}{HOSTILE_MARKUP_ID}", prompt=f"{item.prompt}{HOSTILE_TEXT}") for item in pool.items
        ),
        texts=texts,
        name="hostile",
    )
