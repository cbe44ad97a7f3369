"""Allows servers on this machine to receive the keys of tests and benchmarks, as a user does with `youden doctor --trust`."""

from __future__ import annotations

from pathlib import Path

SENT_TO_TEST_SERVERS = (
    "ANTHROPIC_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AZURE_OPENAI_API_KEY",
    "DEEPINFRA_API_KEY",
    "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "SAMBANOVA_API_KEY",
    "TOGETHER_API_KEY",
)
"""Variables that tests send to servers on this machine."""


def allow_test_servers(folder: Path) -> None:
    """Write the permissions into the configuration directory `folder`, to which XDG_CONFIG_HOME has to point."""
    (folder / "youden").mkdir()
    lines = [f"{name}: [127.0.0.1, localhost]\n" for name in SENT_TO_TEST_SERVERS]
    (folder / "youden" / "trusted.yaml").write_text("".join(lines))
