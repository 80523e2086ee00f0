"""The stores that we know by name: what must be installed to read them, and where their credentials come from.

This is data. A scheme that is not listed is read all the same, where fsspec knows it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Scheme:
    """A scheme of addresses. `extra` is the extra of rag-assets that reads it; `credentials` is what may be set in the
    environment.

    `whole` says that one call lists everything below a folder, or fails; elsewhere folders are listed one by one.
    `folders` says that an empty or missing folder is something else than no files. `unreadable` is what the client takes for
    a word of its own in a name. `options` are given unless the corpus gives others.
    """

    extra: str | None = None
    credentials: str | None = None
    whole: bool = False
    folders: bool = True
    unreadable: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)


# One request an object: it is of one moment, whoever overwrites it meanwhile.
_S3 = Scheme(
    extra="s3",
    credentials="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    whole=True,
    folders=False,
    unreadable="?versionId=",
    options={"max_concurrency": 1},
)
_GCS = Scheme(extra="gcs", credentials="GOOGLE_APPLICATION_CREDENTIALS", whole=True, folders=False)
_AZURE = Scheme(
    extra="azure",
    credentials="AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or"
    " AZURE_STORAGE_CONNECTION_STRING",
    whole=True,
    folders=False,
)
_WEB = Scheme(extra="http")

SCHEMES: Mapping[str, Scheme] = {
    **dict.fromkeys(("s3", "s3a"), _S3),
    **dict.fromkeys(("gs", "gcs"), _GCS),
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), _AZURE),
    **dict.fromkeys(("http", "https"), _WEB),
    "github": Scheme(extra="github", credentials="GITHUB_TOKEN"),
    "zip": Scheme(whole=True),
}


def scheme_of(address: str) -> str:
    """The scheme of an address, that of its first part where it is a chain such as `zip://docs::s3://bucket/a.zip`.
    Empty for a path."""
    scheme, separator, _ = address.split("::")[0].partition("://")
    return scheme.lower() if separator else ""


def credentials_of(scheme: str) -> str:
    """The environment variables that hold the credentials for `scheme`, as a person reads it."""
    known = SCHEMES.get(scheme)
    if known is not None and known.credentials:
        return known.credentials
    return f"FSSPEC_{(scheme or 'SCHEME').upper()}_OPTION, with the name of the option in place of OPTION"
