"""With inspect-ai installed: log two mock models on three samples in both formats, a failing run, and two agents with tools."""

from __future__ import annotations

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver, system_message, use_tools
from inspect_ai.tool import Tool, ToolError, tool

TOPICS = ("rivers", "bridges", "bread")


def outputs(name: str) -> list[ModelOutput]:
    return outputs_of(name, [f"{name} says much of {topic}." for topic in TOPICS])


def outputs_of(name: str, texts: list[str]) -> list[ModelOutput]:
    results = []
    for text in texts:
        output = ModelOutput.from_content(name, text)
        output.usage = ModelUsage(input_tokens=5, output_tokens=5, total_tokens=10)
        results.append(output)
    return results


@solver
def breaks_on_bread() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if "bread" in state.input_text:
            raise RuntimeError("as told")
        return await generate(state)

    return solve


samples = [Sample(id=f"s{n}", input=f"Tell of {topic}.", target=topic) for n, topic in enumerate(TOPICS)]
for name in ("one", "two"):
    for log_format in ("eval", "json"):
        model = get_model(f"mockllm/{name}", custom_outputs=outputs(name), memoize=False)
        task = Task(dataset=samples, solver=generate(), scorer=includes(), name="tiny")
        eval(task, model=model, log_dir=f"logs-{log_format}", log_format=log_format, display="none", max_samples=1)
model = get_model("mockllm/one", custom_outputs=outputs("one"), memoize=False)
task = Task(dataset=samples, solver=breaks_on_bread(), scorer=includes(), name="tiny")
eval(task, model=model, log_dir="logs-failed", log_format="eval", display="none", max_samples=1)


@tool
def add() -> Tool:
    async def execute(x: int, y: int) -> int:
        """Add two numbers.

        Args:
            x: One.
            y: The other.
        """
        if x == y:
            raise ToolError("no twins")
        return x + y

    return execute


def steps(name: str) -> list[ModelOutput]:
    results = []
    for n in range(3):
        output = ModelOutput.for_tool_call(name, "add", {"x": n, "y": 2}, content=f"{name} adds.")
        results += [output, ModelOutput.from_content(name, "Done.")]
    for output in results:
        output.usage = ModelUsage(input_tokens=5, output_tokens=5, total_tokens=10)
    return results


asked = [Sample(id=f"s{n}", input=f"What is {n} + 2?", target="2") for n in range(3)]
for name in ("one", "two"):
    for log_format in ("eval", "json"):
        model = get_model(f"mockllm/{name}", custom_outputs=steps(name), memoize=False)
        task = Task(dataset=asked, solver=[system_message("Add."), use_tools(add()), generate()], name="tools")
        eval(task, model=model, log_dir=f"tools-{log_format}", log_format=log_format, display="none", max_samples=1)
for name in ("one", "two", "three"):
    answers = outputs_of(name, [f"{name}, answer {n}." for n in range(3 * len(TOPICS))])
    model = get_model(f"mockllm/{name}", custom_outputs=answers, memoize=False)
    task = Task(dataset=samples, solver=generate(), scorer=includes(), name="tiny", epochs=3)
    eval(task, model=model, log_dir="logs-epochs", log_format="eval", display="none", max_samples=1)
