#!/usr/bin/env bash
# Other engines, each in an environment of its own under DIR: benchmarks/peers.sh DIR, then benchmarks/engine.py --peers DIR
set -euo pipefail
dir=${1:?usage: benchmarks/peers.sh DIR}
make() { python3 -m venv "$dir/$1" && "$dir/$1/bin/pip" install -q "${@:2}"; }
make litellm 'litellm>=1.106' 'openai>=2.20,<3'
make inspect_ai inspect-ai openai
make async_batch_llm async-batch-llm aiohttp
