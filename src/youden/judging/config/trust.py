"""Apply the trust rule: an environment variable is sent only to hosts that are known for it or allowed by the user.

The known hosts are those of the providers in `backend_records` and those in `HOSTS`. The pairs of variable and host that a user
allows are stored in a file of the user, outside every project: a file that comes with a project cannot allow anything. A variable
of the process environment such as OPENAI_BASE_URL also allows its host.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import yaml

from youden.data.atomic import atomic_write
from youden.errors import ConfigError
from youden.judging.backend_records import BACKENDS, PROVIDERS
from youden.text.printable import format_command
from youden.text.yaml_text import read_yaml

_AZURE = ("*.openai.azure.com", "*.cognitiveservices.azure.com", "*.services.ai.azure.com")
_BEDROCK = ("bedrock-runtime.*.amazonaws.com", "bedrock-runtime-fips.*.amazonaws.com", "bedrock-mantle.*.api.aws")
_GOOGLE = ("*.googleapis.com",)

HOSTS: Mapping[str, tuple[str, ...]] = {
    "AWS_ACCESS_KEY_ID": _BEDROCK,
    "AWS_BEARER_TOKEN_BEDROCK": _BEDROCK,
    "AWS_SECRET_ACCESS_KEY": _BEDROCK,
    "AZURE_API_KEY": _AZURE,
    "AZURE_OPENAI_API_KEY": _AZURE,
    "DEEPINFRA_API_KEY": ("api.deepinfra.com",),
    "GOOGLE_API_KEY": _GOOGLE,
    "GOOGLE_APPLICATION_CREDENTIALS": _GOOGLE,
    "OPENAI_API_KEY": ("*.api.openai.com",),
    "SAMBANOVA_API_KEY": ("api.sambanova.ai",),
}
"""Known hosts of a variable, in addition to the address of its provider; `*` matches one label. Anyone can rent a host
below amazonaws.com, so only the hosts of Bedrock are listed."""

BASE_URLS: Mapping[str, tuple[str, str]] = {
    "ANTHROPIC_API_KEY": ("ANTHROPIC_BASE_URL", "/v1"),
    "AZURE_OPENAI_API_KEY": ("AZURE_OPENAI_ENDPOINT", "/openai/v1"),
    "OPENAI_API_KEY": ("OPENAI_BASE_URL", ""),
}
"""For each key: the variable of the process environment that sets its address, and so allows its host; and the path
that the provider's own library appends to the address."""

_FOUND_BY_LITELLM = {
    **BACKENDS["litellm"].hosts,
    "vertex_ai": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "azure": ("AZURE_API_KEY",),
}
_WITHOUT_CREDENTIALS = {"openai", "hosted_vllm", "lm_studio", "llamafile", "ollama", "ollama_chat"}
"""Providers of litellm that send no credential of their own to a given address."""


LITELLM_PARAMETERS = frozenset(
    [
        "allowed_openai_params",
        "aws_region_name",
        "extra_body",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "min_p",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "repetition_penalty",
        "response_format",
        "safety_settings",
        "seed",
        "service_tier",
        "stop",
        "thinking",
        "top_k",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "vertex_location",
        "vertex_project",
    ]
)
"""Parameters that a judge's file may pass to litellm. Others may name an address, a key or another model; parameters of
a single provider go into extra_body."""

_HOST_LABEL = re.compile(r"[a-z0-9-]+")


class KeyUse(NamedTuple):
    """An environment variable, and the host that its value is sent to."""

    variable: str
    host: str


def get_host(url: str) -> str:
    """Return the host of a URL without its port, in lower case and ASCII, so that no letter can imitate another.

    Examples
    --------
    >>> get_host("https://me@API.openai.com:443/v1")
    'api.openai.com'
    """
    try:
        host = urlsplit(url).hostname or ""
        return host if host.isascii() else host.encode("idna").decode()
    except ValueError:  # UnicodeError is one
        return ""


def is_loopback(host: str) -> bool:
    """Return whether the host is this machine.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost.example.com")
    (True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def find_key_uses(backend: str, model: str | None, variable: str | None, urls: Iterable[str]) -> tuple[KeyUse, ...]:
    """Return which environment variables a judge sends to which hosts; empty if it sends none.

    litellm itself finds the key of a provider and knows its host, which is written `litellm/PROVIDER` here. If the
    judge has a custom address, litellm would send the key that it finds to that address.

    variable: contains the API key; None if the judge names none. urls: empty if the backend's library
    knows the address.
    """
    provider = (model or "").partition("/")[0] if "/" in (model or "") else "openai"
    hosts = [get_host(url) for url in urls]
    if variable is not None:
        return tuple(KeyUse(variable, host) for host in hosts or [f"{backend}/{provider}"])
    if backend != "litellm" or provider in _WITHOUT_CREDENTIALS:
        return ()
    return tuple(
        KeyUse(name, host) for host in hosts for name in _FOUND_BY_LITELLM.get(provider, _litellm_names(provider))
    )


def _litellm_names(provider: str) -> tuple[str, ...]:
    """Return the variables in which litellm searches for the key of a provider."""
    name = re.sub(r"\W", "_", provider).upper()
    return f"{name}_API_KEY", f"{name}_API_TOKEN"


def find_litellm_fault(model: str, parameters: Mapping[str, object]) -> str | None:
    """Find a fault that could make litellm send a request to a host other than its provider's.

    Returns the fault and its remedy, or None.
    """
    if unknown := sorted(parameters.keys() - LITELLM_PARAMETERS):
        return f"a parameter could make litellm send the request elsewhere: got {unknown[0]!r}. Move it to extra_body."
    for name in ("aws_region_name", "vertex_location"):  # parts of the host's name
        if name in parameters and not _HOST_LABEL.fullmatch(str(parameters[name])):
            return f"{name} is not a region: got {str(parameters[name])[:60]!r}. Set a region, such as us-east-1."
    regions = [resource.split(":")[2:3] for resource in model.split("arn:")[1:]]
    if "://" in model or not all(region and _HOST_LABEL.fullmatch(region[0]) for region in regions):
        return f"the model contains an address: got {model[:60]!r}. Set model to its name, and base_url to the address."
    return None


def is_known(use: KeyUse) -> bool:
    """Return whether the host is known for the variable.

    Examples
    --------
    >>> is_known(KeyUse("OPENAI_API_KEY", "api.openai.com")), is_known(KeyUse("OPENAI_API_KEY", "api.openai.com.evil.com"))
    (True, False)
    """
    if use.variable in _litellm_names(use.host.removeprefix("litellm/")):
        return use.host.startswith("litellm/")
    return any(re.fullmatch(pattern, use.host) for pattern in _known_hosts().get(use.variable, ()))


@cache
def _known_hosts() -> Mapping[str, tuple[str, ...]]:
    """Return the patterns of the known hosts of each variable; for litellm, also the names of its providers."""
    hosts_of = {variable: [*hosts] for variable, hosts in HOSTS.items()}
    for name, record in (BACKENDS | PROVIDERS).items():
        if record.key_variable is not None:
            addresses = [get_host(record.address)] if record.address else []
            hosts_of.setdefault(record.key_variable, []).extend([*addresses, f"litellm/{record.priced_as or name}"])
    return {
        variable: tuple(re.escape(host).replace(r"\*", "[a-z0-9-]+") for host in hosts)
        for variable, hosts in hosts_of.items()
    }


def is_allowed(use: KeyUse) -> bool:
    """Return whether the variable may be sent to the host: a known, configured or allowed one.

    A host is known for its provider, configured if a variable of the process environment names it, and allowed if the
    user allowed it. Raises: ConfigError [trust-file] if the user's file of allowed hosts is invalid.
    """
    if not use.host:
        return False
    url = find_base_url(use.variable)
    if is_known(use) or (url is not None and use.host == get_host(url)):
        return True
    return use.host in read_trusted(find_trusted_file()).get(use.variable, ())


def find_base_url(variable: str | None) -> str | None:
    """Return the address that the process environment sets for the key in `variable`; None if it sets none."""
    name, ending = BASE_URLS.get(variable or "", ("", ""))
    url = os.environ.get(name, "").strip().rstrip("/")
    return (url.removesuffix(ending) + ending) or None if url else None


def check_uses(uses: Iterable[KeyUse], *, judge: str, file: Path | None) -> None:
    """Check that environment variables may be sent to their hosts. Raises: ConfigError [key-not-trusted].

    judge, file: name and file of the judge, for the message; None if it has no file.
    """
    for use in uses:
        if is_allowed(use):
            continue
        source = f"the judge '{judge}'" if file is None else str(file)
        command = format_command(["youden", "doctor", "JUDGE.yaml" if file is None else str(file), "--trust"])
        raise ConfigError(
            f"{source} would send the environment variable {use.variable} to {use.host}, which is not a known host of that key. "
            f"Nothing was sent. If you trust the file and the host, run this once to allow it: {command}",
            slug="key-not-trusted",
        )


def find_trusted_file() -> Path:
    """Return the file with the allowed pairs: `youden/trusted.yaml` in the user's configuration directory.

    A relative XDG_CONFIG_HOME is ignored, as its specification demands: it would lead into the project.
    """
    name = "APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME"
    base = os.environ.get(name, "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".config")
    path = Path(base) / "youden" / "trusted.yaml"
    if not path.is_absolute():
        raise _damaged(path, f"this user has no home directory. Set {name} to a directory outside the project")
    return path


def read_trusted(path: Path) -> dict[str, list[str]]:
    """Read the allowed hosts by variable; none without a file. Raises: ConfigError [trust-file], if it is invalid."""
    try:
        content = read_yaml(path) or {}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _damaged(path, " ".join(str(error).split())) from None
    if not isinstance(content, dict):
        raise _damaged(path, "it has no keys")
    for variable, hosts in content.items():
        if (
            not isinstance(variable, str)
            or not isinstance(hosts, list)
            or not all(isinstance(host, str) for host in hosts)
        ):
            raise _damaged(path, f"{variable!r:.60} has no list of hosts")
    return content


def _damaged(path: Path, problem: str) -> ConfigError:
    return ConfigError(
        f"{path} cannot be used: {problem}. A valid line is `OPENAI_API_KEY: [gateway.example.com]`. Correct or delete the file.",
        slug="trust-file",
    )


_HEADER = "# Environment variables and the hosts they may be sent to; `youden doctor JUDGE --trust` adds to it.\n"


def allow_uses(uses: Iterable[KeyUse]) -> Path:
    """Allow environment variables to be sent to hosts, by adding them to the user's file.

    Parameters
    ----------
    uses : iterable of KeyUse

    Returns
    -------
    Path
        The file. It is replaced atomically, and only its owner may read it.

    Raises
    ------
    ConfigError
        [trust-file]: if the present file is invalid.
    """
    path = find_trusted_file()
    trusted = read_trusted(path)
    for use in uses:
        hosts = trusted.setdefault(use.variable, [])
        if use.host not in hosts:
            hosts.append(use.host)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with atomic_write(path) as tmp_path:
        tmp_path.touch(mode=0o600)
        tmp_path.write_text(_HEADER + yaml.safe_dump(trusted), encoding="utf-8")
    return path
