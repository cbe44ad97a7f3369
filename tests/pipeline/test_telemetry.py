"""Test which telemetry a run exports, and that nothing is exported or imported by default."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from commands import write_pool_table

ROOT = Path(__file__).parents[2]
TELLS = """
import json, sys
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
spans, reader, provider = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([reader]))
from youden.cli import youden
code = youden.main(["run", "r.yaml", "--json"], standalone_mode=False)
points = {
    metric.name: [(point.value, dict(point.attributes)) for point in metric.data.data_points]
    for resource in (reader.get_metrics_data() or type("", (), {"resource_metrics": []})).resource_metrics
    for scope in resource.scope_metrics
    for metric in scope.metrics
}
told = [(span.name, dict(span.attributes), span.status.status_code.name) for span in spans.get_finished_spans()]
print(json.dumps({"spans": told, "points": points}), file=sys.stderr)
"""
SILENT = """
import sys
from youden.cli import youden
youden.main(["run", "r.yaml"], standalone_mode=False)
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


def python(code: str, *, here: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    write_pool_table(here / "p.csv")
    (here / "r.yaml").write_text("pool: p.csv\n")
    path = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=here, env=path | environment, capture_output=True, text=True, check=True
    )


@pytest.mark.slow
def test_a_run_exports_its_steps_and_numbers_but_no_text(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    lines = python(TELLS, here=tmp_path, OTEL_SERVICE_NAME="mine").stderr.splitlines()[-1]
    data = json.loads(lines)
    assert [name for name, *_ in data["spans"]] == ["youden.plan", "youden.judge", "youden.fit"]
    assert {status for *_, status in data["spans"]} == {"UNSET"}
    facts = data["spans"][1][1]
    assert (facts["run"], facts["judge"], facts["agents"]) == ("r", "lexical", 5)
    assert data["points"]["youden.answers"][0][0] == facts["calls"]
    assert data["points"]["youden.missing"][0][0] == 0
    assert "w0x" not in lines


@pytest.mark.slow
def test_telemetry_imports_nothing_if_disabled(tmp_path: Path) -> None:
    python(SILENT, here=tmp_path)


@pytest.mark.slow
def test_the_test_without_telemetry_can_fail(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    with pytest.raises(subprocess.CalledProcessError):
        python(SILENT, here=tmp_path, OTEL_SERVICE_NAME="mine")
