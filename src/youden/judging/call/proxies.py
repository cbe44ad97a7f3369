"""Find the proxy for an address in the process environment.

HTTP_PROXY, HTTPS_PROXY and NO_PROXY are read as in curl and httpx, in upper or lower case. aiohttp's own `trust_env` is
not used: it would search for the proxy before every call, and send the credentials of a `.netrc` file.
"""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from youden.errors import ConfigError


def find_proxy(url: str) -> str | None:
    """Return the URL of the proxy for an http or https URL, with its credentials; None to connect directly.

    Raises: ConfigError [judge-proxy] if the environment variable does not contain a URL.
    """
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    host = parts.hostname or ""
    if not proxy or proxy_bypass(host):
        return None
    if parts.port is not None and proxy_bypass(f"{host}:{parts.port}"):
        return None

    proxy_url = proxy if "://" in proxy else f"http://{proxy}"
    try:
        _ = urlsplit(proxy_url).port  # ValueError if it is not a number
    except ValueError:
        raise ConfigError(
            f"The proxy for {parts.scheme}:// addresses is not a URL. Correct or unset {parts.scheme.upper()}_PROXY.",
            slug="judge-proxy",
        ) from None
    return proxy_url
