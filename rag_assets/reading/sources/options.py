"""The options that fsspec is given for an address: those of the corpus, in the words of each client, and defaults of ours.

Credentials are none of them: clients take them from the environment themselves. GitHub's does not, so we do.
"""

import os
from collections.abc import Mapping
from typing import Any

from rag_assets.reading.sources.schemes import SCHEMES, Scheme, scheme_of


def storage_options(address: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for `fsspec.core.url_to_fs`: by scheme, for every part of a chain.

    `options` belong to the last part, which is where the bytes are; a key that is the scheme of a part holds the options
    of that part. Clients are made anew and told to keep no listings.
    """
    schemes = [scheme_of(part if "://" in part else f"{part}://") for part in address.split("::")]
    if scheme_of(address.rpartition("::")[2]) == "":
        schemes[-1] = "file"
    own = {key: value for key, value in options.items() if key in schemes and isinstance(value, Mapping)}
    common = {key: value for key, value in options.items() if key not in own}
    arguments: dict[str, Any] = {}
    for place, scheme in enumerate(schemes):
        given = {**(common if place == len(schemes) - 1 else {}), **own.get(scheme, {})}
        defaults = SCHEMES.get(scheme, Scheme()).options
        arguments[scheme] = {
            "skip_instance_cache": True,
            **defaults,
            **_from_environment(scheme),
            **_spelled(scheme, given),
        }
    return arguments


def _spelled(scheme: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """`region` and `anon` as the client of `scheme` calls them."""
    spelled = dict(options)
    if scheme in ("s3", "s3a") and "region" in spelled:
        spelled["client_kwargs"] = {**spelled.get("client_kwargs", {}), "region_name": spelled.pop("region")}
    if scheme in ("gs", "gcs") and spelled.pop("anon", False):
        spelled["token"] = "anon"  # noqa: S105  # the word for none
    return spelled


def _from_environment(scheme: str) -> dict[str, Any]:
    token = os.environ.get("GITHUB_TOKEN")
    if scheme == "github" and token:
        return {"username": "x-access-token", "token": token}
    return {}
