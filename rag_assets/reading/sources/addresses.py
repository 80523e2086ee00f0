"""Addresses of the web, written in one way, and the document that each of them is."""

from urllib.parse import quote, urlsplit, urlunsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}
# What may stand unescaped; an escape that is there stays, so that writing an address again changes nothing.
_PATH = "/%:@!$&'()*+,;=~"
_QUERY = _PATH + "?"


def canonical_url(url: str) -> str:
    """`url` with scheme and host in small letters, other scripts and blanks escaped, and neither fragment nor usual port.

    Raises `ValueError` for what is no address of the web, and for one with a user name or password.
    """
    shown = repr(url.rpartition("@")[2])
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{shown} is not an address: {error}") from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f"{shown} is not an address of the web; it begins with https:// or http:// and a host")
    if "@" in parts.netloc:
        raise ValueError(f"the address of {shown} holds a user name or password; only public pages are read")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    where = host if port in (None, _DEFAULT_PORTS[parts.scheme]) else f"{host}:{port}"
    path = quote(parts.path, safe=_PATH) or "/"
    return urlunsplit((parts.scheme, where, path, quote(parts.query, safe=_QUERY), ""))


def document_of_url(url: str) -> str:
    """The document at `url`, an address as `canonical_url` writes it: everything but its scheme."""
    return url.partition("://")[2]


def path_of_url(url: str) -> str:
    """What globs are compared with: the path without its first slash, and without the query."""
    return urlsplit(url).path.lstrip("/")


def host_of_url(url: str) -> str:
    """The host of `url` without its port, and without `www.`"""
    return (urlsplit(url).hostname or "").removeprefix("www.")
