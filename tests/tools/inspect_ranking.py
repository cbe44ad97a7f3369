"""With inspect-ai and youden installed: rank an eval_set of mock models, and print the tables as JSON.

The last output of each model is only 'Done.'; its response is in the previous message, which the scorer keeps.
"""

from __future__ import annotations

import asyncio
import json
import sys

from inspect_ai import Task, eval_set
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolChoice, ToolInfo

from youden.inspect import keep_response, rank_logs, rank_logs_async

WORDS = (
    "river",
    "bridge",
    "bread",
    "clock",
    "salt",
    "glass",
    "paper",
    "stone",
    "copper",
    "wool",
    "maple",
    "honey",
    "cedar",
)
TOLD = {"faithful": 13, "shorter": 10, "vague": 6, "empty": 0}
"""Number of topics on which a model gives the common answer; on others it only gives filler."""


def says(name: str, topic: str) -> str:
    own = [f"{topic}-{number}" for number in range(5)] if WORDS.index(topic) < TOLD[name] else []
    return " ".join([*own, *(f"filler{number}" for number in range(6 - len(own)))])


def answer(
    messages: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
) -> ModelOutput:
    del tools, tool_choice, config
    name, topic = messages[0].text, messages[1].text
    output = ModelOutput.from_content("mock", "Done." if len(messages) > 2 else says(name, topic))
    output.usage = ModelUsage(input_tokens=5, output_tokens=5, total_tokens=10)
    return output


@solver
def two_turns() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.messages.insert(0, ChatMessageSystem(content=state.model.name))
        state = await generate(state)
        state.messages.append(ChatMessageUser(content="Are you done?"))
        return await generate(state)

    return solve


samples = [Sample(id=word, input=word, target=word) for word in WORDS]
models = [get_model(f"mockllm/{name}", custom_outputs=answer, memoize=False) for name in TOLD]
first_said = keep_response(lambda state: state.messages[2].text)
tasks = Task(dataset=samples, solver=two_turns(), scorer=[includes(), first_said], name="topics")

success, logs = eval_set(tasks, model=models, log_dir=sys.argv[1], display="none")
table = rank_logs(logs)
tables = {"logs": table, "folder": rank_logs(sys.argv[1]), "awaited": asyncio.run(rank_logs_async(logs))}

agents = {name: dict(zip(one["agent"], one["ability"], strict=True)) for name, one in tables.items()}
print(json.dumps({"success": success, "abilities": agents, "notes": table.attrs["notes"]}))
