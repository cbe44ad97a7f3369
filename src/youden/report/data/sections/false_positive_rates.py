"""Tabulate the agents' false-positive rates."""

from __future__ import annotations

from youden.report.data.sections.report_section import ReportSection


class FalsePositiveRates(ReportSection):
    """False-positive rate of each agent with its 95% interval, the largest rate first. An unknown interval is empty."""

    title = "False-positive rates"
    note = (
        "The mean answer to an agent's independent trials, shrunk towards the mean of all agents. The fewer trials an agent has, "
        "the more its rate is shrunk."
    )
    text_headings = ("agent",)
    number_headings = ("FPR", "95%", "independent trials")

    def make_rows(self) -> list[list[str]]:
        """Return one row per agent."""
        rates = self.run.facts.rates
        rows = []
        for agent_rate in () if rates is None else rates.agents:
            low, high = agent_rate.low, agent_rate.high
            interval = "" if low is None or high is None else f"{low:.4f} … {high:.4f}"
            rows.append([agent_rate.agent, f"{agent_rate.rate:.4f}", interval, f"{agent_rate.n_trials:,}"])
        return rows
