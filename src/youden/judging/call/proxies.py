"""Find the proxy for an address in the process environment.

HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY are read as in curl and httpx, in upper or lower case. aiohttp's own `trust_env`
is not used: it would search for the proxy before every call, and send the credentials of a `.netrc` file.
"""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from youden.errors import ConfigError


def find_proxy(url: str) -> str | None:
    """Return the URL of the proxy for an http or https URL, with its credentials; None to connect directly.

    Raises: ConfigError [judge-proxy] if the environment variable does not contain the URL of an HTTP proxy.
    """
    parts = urlsplit(url)
    proxies = getproxies()  # the values of HTTP_PROXY, HTTPS_PROXY and ALL_PROXY by "http", "https" and "all"
    name = parts.scheme if proxies.get(parts.scheme) else "all"
    proxy = proxies.get(name, "")
    is_for_other_programs = name == "all" and proxy.startswith("socks")
    if not proxy or is_for_other_programs:
        return None

    # NO_PROXY lists hosts that are connected to directly
    host = parts.hostname or ""
    if proxy_bypass(host):
        return None
    if parts.port is not None and proxy_bypass(f"{host}:{parts.port}"):
        return None

    proxy_url = proxy if "://" in proxy else f"http://{proxy}"
    try:
        proxy_parts = urlsplit(proxy_url)
        _ = proxy_parts.port  # ValueError if it is not a number
        is_supported = proxy_parts.scheme in ("http", "https")
    except ValueError:
        is_supported = False
    if not is_supported:
        raise ConfigError(
            f"The proxy for {parts.scheme}:// addresses is not the URL of an HTTP proxy, the only supported kind. Correct or "
            f"unset {name.upper()}_PROXY, or list the judge's host in NO_PROXY.",
            slug="judge-proxy",
        )
    return proxy_url
