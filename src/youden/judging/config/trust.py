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
    """Find which environment variables with API keys a judge sends to which hosts.

    - If the config names a variable, this variable is sent to the host of each address. Without an address, the backend's
      library selects the host. The result then contains the text `BACKEND/PROVIDER`, such as litellm/groq, in place of the
      host.
    - If the config names no variable, only the backend litellm sends variables: those of the model's provider, such as
      GROQ_API_KEY. It sends none for the provider openai and for local servers such as ollama.

    Parameters
    ----------
    backend, model : str, str or None
        Backend and model of the judge. The provider is the part of the model's name before the first slash, by default openai.
    variable : str or None
        Environment variable that contains the API key; None if the config names none.
    urls : iterable of str
        Addresses of the judge's servers; empty if the backend's library knows the address.

    Returns
    -------
    tuple of KeyUse
        One entry per variable and address: the name of the variable (`variable`) and the host without its port (`host`). Empty if
        the judge sends no environment variable, or if the config names neither a variable nor an address.
    """
    provider, slash, _ = (model or "").partition("/")
    if not slash:
        provider = "openai"
    hosts = [get_host(url) for url in urls]

    if variable is not None:
        hosts = hosts or [f"{backend}/{provider}"]
        return tuple(KeyUse(variable, host) for host in hosts)

    litellm_sends_variables = backend == "litellm" and provider not in _WITHOUT_CREDENTIALS
    if not litellm_sends_variables:
        return ()
    variables = _FOUND_BY_LITELLM.get(provider, _get_litellm_variables(provider))
    return tuple(KeyUse(name, host) for host in hosts for name in variables)


def _get_litellm_variables(provider: str) -> tuple[str, ...]:
    """Return the variables in which litellm searches for the key of a provider."""
    name = re.sub(r"\W", "_", provider).upper()
    return f"{name}_API_KEY", f"{name}_API_TOKEN"


def describe_host_change(model: str, parameters: Mapping[str, object]) -> str | None:
    """Describe why the model or a parameter of a judge could make litellm send requests to another host than the provider's.

    Parameters
    ----------
    model : str
        Name of the model, with its provider.
    parameters : mapping
        Parameters of requests.

    Returns
    -------
    str or None
        Description of the problem and its remedy; None if neither the model nor a parameter can change the host.
    """
    # any parameter that is not known to be harmless could change the host
    unknown_parameters = sorted(parameters.keys() - LITELLM_PARAMETERS)
    if unknown_parameters:
        name = unknown_parameters[0]
        return f"a parameter could make litellm send the request to another host: got {name!r}. Move it to extra_body."

    # a region becomes a part of the host's name
    for name in ("aws_region_name", "vertex_location"):
        region = str(parameters.get(name, ""))
        if name in parameters and not _HOST_LABEL.fullmatch(region):
            return f"{name} is not a region: got {region[:60]!r}. Set a region, such as us-east-1."

    has_invalid_region = not all(map(_HOST_LABEL.fullmatch, _find_arn_regions(model)))
    if "://" in model or has_invalid_region:
        return f"the model contains an address: got {model[:60]!r}. Set model to its name, and base_url to the address."
    return None


def _find_arn_regions(model: str) -> list[str]:
    """Find the regions in the Amazon Resource Names that a model's name contains, arn:PARTITION:SERVICE:REGION:….

    A resource name that is too short to contain a region gives an empty text.
    """
    regions = []
    _, *names_without_prefix = model.split("arn:")
    for name in names_without_prefix:
        fields = name.split(":")
        regions.append(fields[2] if len(fields) > 2 else "")
    return regions


def is_known_key_use(use: KeyUse) -> bool:
    """Return whether an environment variable is known to contain a key for the host.

    Examples
    --------
    >>> is_known_key_use(KeyUse("OPENAI_API_KEY", "api.openai.com"))
    True
    >>> is_known_key_use(KeyUse("OPENAI_API_KEY", "api.openai.com.evil.com"))
    False
    """
    if use.variable in _get_litellm_variables(use.host.removeprefix("litellm/")):
        return use.host.startswith("litellm/")
    return any(re.fullmatch(pattern, use.host) for pattern in _compile_known_hosts().get(use.variable, ()))


@cache
def _compile_known_hosts() -> Mapping[str, tuple[str, ...]]:
    """Return the hosts that may get the API key in each environment variable, as regular expressions of whole hosts."""
    return {variable: tuple(map(_to_pattern, hosts)) for variable, hosts in _list_known_hosts().items()}


def _to_pattern(host: str) -> str:
    """Convert a host to a regular expression, in which "*" matches any label."""
    return re.escape(host).replace(r"\*", "[a-z0-9-]+")


def _list_known_hosts() -> dict[str, list[str]]:
    """List the hosts that may get the API key in each environment variable.

    These are the hosts in `HOSTS`, the host of the provider's default address, and the text `litellm/PROVIDER`. This text
    represents the host that litellm uses for the provider by default. A "*" in a host matches one part of it, without a dot.
    """
    hosts_by_variable = {variable: list(hosts) for variable, hosts in HOSTS.items()}
    for name, record in (BACKENDS | PROVIDERS).items():
        variable = record.key_variable
        if variable is None:
            continue
        hosts = hosts_by_variable.setdefault(variable, [])
        if record.address:
            hosts.append(get_host(record.address))
        name_in_litellm = record.priced_as or name  # `priced_as` is the name in litellm's table of prices
        hosts.append(f"litellm/{name_in_litellm}")
    return hosts_by_variable


def is_allowed_key_use(use: KeyUse) -> bool:
    """Return whether an environment variable may be sent to a host.

    One of these conditions must hold:

    - The host belongs to the provider of the key.
    - A variable such as OPENAI_BASE_URL contains the host.
    - The user has allowed the host with `youden doctor --trust`.

    Raises
    ------
    ConfigError
        [trust-file]: if the user's file of allowed hosts is invalid.
    """
    if not use.host:
        return False
    if is_known_key_use(use):
        return True
    url = find_base_url(use.variable)
    if url is not None and use.host == get_host(url):
        return True
    allowed_hosts = read_trusted_hosts(find_trusted_file()).get(use.variable, ())
    return use.host in allowed_hosts


def find_base_url(variable: str | None) -> str | None:
    """Return the address that a variable such as OPENAI_BASE_URL sets for the key in `variable`; None if none does."""
    url_variable, path = BASE_URLS.get(variable or "", ("", ""))
    url = os.environ.get(url_variable, "").strip().rstrip("/")
    if not url:
        return None
    return url.removesuffix(path) + path or None


def check_key_uses(uses: Iterable[KeyUse], *, judge: str, file: Path | None) -> None:
    """Check that environment variables with API keys may be sent to their hosts.

    A host is allowed if it belongs to the provider of the key, if a variable such as OPENAI_BASE_URL contains it, or if the user
    has allowed it with `youden doctor --trust`. This machine (localhost) is no exception.

    Parameters
    ----------
    uses : iterable of KeyUse
        Pairs of a variable and a host.
    judge : str
        Name of the judge that sends the variables, for the error message.
    file : Path or None
        File of the judge, for the error message; None if it has no file.

    Raises
    ------
    ConfigError
        [key-not-trusted]: for the first variable that may not be sent to its host. [trust-file]: if the user's file of
        allowed hosts is invalid.
    """
    for use in uses:
        if is_allowed_key_use(use):
            continue
        source = f"the judge '{judge}'" if file is None else str(file)
        judge_file = "JUDGE.yaml" if file is None else str(file)
        command = format_command(["youden", "doctor", judge_file, "--trust"])
        raise ConfigError(
            f"{source} would send the environment variable {use.variable} to {use.host}, which is not a known host of that key. "
            f"Nothing was sent. If you trust the file and the host, run this once to allow it: {command}",
            slug="key-not-trusted",
        )


def find_trusted_file() -> Path:
    """Return the path of the user's file of allowed hosts, `youden/trusted.yaml` in the configuration directory.

    On Windows, this directory is APPDATA. On other systems, it is XDG_CONFIG_HOME, by default ~/.config. A variable with a
    relative path is ignored: the file would be in the current project, and a project must not be able to allow hosts.

    Raises: ConfigError [trust-file] if the user has neither a configuration directory nor a home directory.
    """
    name = "APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME"
    config_folder = os.environ.get(name, "")
    if not os.path.isabs(config_folder):
        config_folder = os.path.join(os.path.expanduser("~"), ".config")
    path = Path(config_folder) / "youden" / "trusted.yaml"
    if not path.is_absolute():
        raise _make_trust_file_error(
            path, f"this user has no home directory. Set {name} to a directory outside the project"
        )
    return path


def read_trusted_hosts(path: Path) -> dict[str, list[str]]:
    """Read the user's file of allowed hosts: for each environment variable, the hosts that its value may be sent to.

    Returns an empty dictionary if the file does not exist.
    Raises: ConfigError [trust-file] if the file is invalid.
    """
    try:
        content = read_yaml(path) or {}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _make_trust_file_error(path, " ".join(str(error).split())) from None
    if not isinstance(content, dict):
        raise _make_trust_file_error(path, "it has no keys")
    for variable, hosts in content.items():
        has_list_of_hosts = isinstance(hosts, list) and all(isinstance(host, str) for host in hosts)
        if not isinstance(variable, str) or not has_list_of_hosts:
            displayed_variable = repr(variable)[:60]
            raise _make_trust_file_error(path, f"{displayed_variable} has no list of hosts")
    return content


def _make_trust_file_error(path: Path, problem: str) -> ConfigError:
    """Make the error for a file of allowed hosts that cannot be used; `problem` is not a full sentence."""
    return ConfigError(
        f"{path} cannot be used: {problem}. A valid line is `OPENAI_API_KEY: [gateway.example.com]`. Correct or delete the file.",
        slug="trust-file",
    )


_HEADER = "# Environment variables and the hosts they may be sent to; `youden doctor JUDGE --trust` adds to it.\n"


def allow_key_uses(uses: Iterable[KeyUse]) -> Path:
    """Allow environment variables to be sent to hosts, by adding them to the user's file.

    Parameters
    ----------
    uses : iterable of KeyUse
        Pairs of a variable and a host to which it may be sent.

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
    trusted = read_trusted_hosts(path)
    for use in uses:
        hosts = trusted.setdefault(use.variable, [])
        if use.host not in hosts:
            hosts.append(use.host)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with atomic_write(path) as tmp_path:
        tmp_path.touch(mode=0o600)
        tmp_path.write_text(_HEADER + yaml.safe_dump(trusted), encoding="utf-8")
    return path
