"""Objects in an object store, and the conditional puts by which writers on several machines agree.

`obstore` stands on the library that Lance stands on: addresses, and variables of the environment, mean the same to both.
S3, GCS and Azure are the same code here.
"""

import functools
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

from rag_assets.errors import StoreError

Mark = Mapping[str, str]
"""What a store tells one content of an object from another by: an etag, and in some stores a version."""

LARGEST_SKEW = timedelta(minutes=2)
"""Clocks may differ by so much: versions that readers may be in are kept for ten minutes."""

# What Lance and obstore say where the fault is with the store, and not with what lies in it.
_TROUBLE = re.compile(
    r"Generic \w+ error|resolve region|NoSuchBucket|ContainerNotFound"
    r"|lacked (the necessary privileges|valid authentication credentials)"
)
_REFUSED = re.compile(r"40[13] (Forbidden|Unauthorized)|lacked ")
_LOOKS_AT_THE_CLOCK = 3
_CREDENTIALS_KEPT = timedelta(minutes=5)
_ENDPOINTS = {"AWS": "AWS_ENDPOINT_URL", "AZURE": "AZURE_STORAGE_ENDPOINT"}
_reached: set[str] = set()
# All objects here are small. A request that hangs must be over, and sent again, before a lock that waits for it expires.
_RETRIES: Any = {"max_retries": 4, "retry_timeout": timedelta(seconds=10)}
_PATIENCE: Any = {"connect_timeout": timedelta(seconds=5), "timeout": timedelta(seconds=6)}


@dataclass(frozen=True)
class Stored:
    """The content of an object, and the mark of that content, which tells it from what others put there later."""

    data: bytes
    mark: Mark


class Objects:
    """The objects below `uri`, such as `s3://bucket/path`. Paths are relative to it.

    Every method raises `StoreError` where the store cannot be reached, or refuses.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def get(self, path: str) -> Stored | None:
        """The object at `path`, None where there is none."""
        with self._told() as obstore:
            try:
                found = obstore.get(self._store, path)
                return Stored(bytes(found.bytes()), _mark(found.meta))
            except FileNotFoundError as error:
                _is_there(self.uri, error)
                return None

    def create(self, path: str, data: bytes) -> Mark | None:
        """Put `data`, which nobody has put before, where no object is; its mark, or None where there is one already."""
        return self._put_if(path, data, "create")

    def update(self, path: str, data: bytes, mark: Mark) -> Mark | None:
        """Put `data`, which nobody has put before, in place of the content marked `mark`; its mark, or None where there is
        another content by now."""
        return self._put_if(path, data, mark)

    def put(self, path: str, data: bytes) -> None:
        """Put `data`, whatever is there."""
        with self._told() as obstore:
            obstore.put(self._store, path, data)

    def delete(self, path: str) -> None:
        """Delete the object at `path`, where there is one."""
        with self._told() as obstore:
            try:
                obstore.delete(self._store, path)
            except FileNotFoundError:
                return

    def folders(self, path: str = "") -> list[str]:
        """The names of the folders below `path`, sorted."""
        with self._told() as obstore:
            found = obstore.list_with_delimiter(self._store, path or None)
            return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"])

    def size(self, path: str = "") -> int:
        """How many bytes the objects below `path` take together."""
        with self._told() as obstore:
            return sum(one["size"] for some in obstore.list(self._store, path or None) for one in some)

    def modified(self, path: str) -> datetime | None:
        """When the object at `path` was put, by the clock of the store; None where there is none."""
        with self._told() as obstore:
            try:
                moment: datetime = obstore.head(self._store, path)["last_modified"]
            except FileNotFoundError as error:
                _is_there(self.uri, error)
                return None
            return moment.astimezone(UTC)

    @functools.cached_property
    def _store(self) -> Any:
        from obstore.store import from_url

        owner = _owner(self.uri)
        allow_http = os.environ.get(f"{owner}_ALLOW_HTTP", "").lower() in ("true", "1", "yes")
        options: Any = {**_PATIENCE, "allow_http": allow_http}
        _refuse_endpoint(_ENDPOINTS.get(owner))
        more: Any = _profile() if owner == "AWS" else {}
        try:
            return from_url(self.uri, retry_config=_RETRIES, client_options=options, **more)
        except Exception as error:  # obstore has no class of its own for what it cannot read
            raise StoreError(
                f"{self.uri} cannot be opened ({_reason(error)}); allowed are s3://, gs:// and az://, with credentials in"
                " the environment (docs/deployment.md)"
            ) from error

    def _put_if(self, path: str, data: bytes, mode: Any) -> Mark | None:
        with self._told() as obstore:
            from obstore.exceptions import AlreadyExistsError, PreconditionError

            try:
                done = obstore.put(self._store, path, data, mode=mode)
            except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
                _is_there(self.uri, error)
                # A put whose answer was lost is sent again, and then meets itself.
                there = self.get(path)
                return there.mark if there is not None and there.data == data else None
            return _mark(done)

    @contextmanager
    def _told(self) -> Iterator[ModuleType]:
        """The package that speaks to the store, whose errors are told as `StoreError`."""
        obstore = _obstore(self.uri)
        from obstore.exceptions import BaseError

        try:
            yield obstore
        except NotImplementedError as error:  # a put on condition, where the store has none
            raise _without_conditions(self.uri) from error
        except (BaseError, FileNotFoundError, OSError) as error:
            raise store_trouble(self.uri, error) or _unreachable(self.uri, error) from error


def store_trouble(uri: str, error: BaseException) -> StoreError | None:
    """What `error`, of Lance or obstore, tells of the object store that `uri` is in; None where it tells of an object, or
    `uri` is a folder."""
    message = str(error)
    if "://" not in uri or not _TROUBLE.search(message):
        return None
    if _REFUSED.search(message):
        return StoreError(
            f"{uri} refuses the credentials of the environment ({_reason(error)}); correct them, or their rights"
        )
    return _unreachable(uri, error)


def _is_there(uri: str, error: BaseException) -> None:
    """Raise `StoreError` where what is missing is not an object, but the whole bucket."""
    trouble = store_trouble(uri, error) if isinstance(error, FileNotFoundError) else None
    if trouble is not None:
        raise trouble from error


def _unreachable(uri: str, error: BaseException) -> StoreError:
    if "builder error" in str(error):
        return StoreError(
            f"{uri} cannot be reached ({_reason(error)}); a server without TLS needs {_owner(uri)}_ALLOW_HTTP=true"
        )
    return StoreError(
        f"{uri} cannot be reached ({_reason(error)}); check RAG_ASSETS_HOME, the network, and the credentials and the"
        " address of the server in the environment (docs/deployment.md)"
    )


def _without_conditions(uri: str) -> StoreError:
    return StoreError(
        f"the server of {uri} does not keep to the conditions of a put (If-None-Match, If-Match): two writers would"
        " overwrite each other's commits. Use a store that does, such as Amazon S3, or a folder"
    )


def _obstore(uri: str) -> ModuleType:
    """The package that speaks to object stores. Raises `StoreError` that names the extra where it is missing."""
    try:
        import obstore
    except ImportError:
        extra = {"GOOGLE": "gcs", "AZURE": "azure"}.get(_owner(uri), "s3")
        raise StoreError(f"{uri} needs a package that is not installed: pip install 'rag-assets[{extra}]'") from None
    return obstore


def _refuse_endpoint(variable: str | None) -> None:
    """Raise `StoreError` for the address of a server that obstore and Lance would panic at."""
    named = os.environ.get(variable) if variable else None
    if named is not None and not re.match(r"https?://[^/]", named):
        raise StoreError(f"{variable} {named!r} is no address of a server; write http://host:port, or unset it")


def _profile() -> dict[str, Any]:
    """The credentials and the region of an AWS profile, which Lance finds by itself and obstore does not; nothing where the
    environment has a key, or no file of profiles is there."""
    files = [
        os.environ.get(variable) or os.path.expanduser(place)  # noqa: PTH111 - Path.home() may raise
        for variable, place in (
            ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
            ("AWS_CONFIG_FILE", "~/.aws/config"),
        )
    ]
    if os.environ.get("AWS_ACCESS_KEY_ID") or not any(map(os.path.exists, files)):
        return {}
    try:
        from botocore.session import Session
    except ImportError:
        return {}
    session = Session()
    found = session.get_credentials()
    if found is None:
        return {}

    def credentials() -> dict[str, Any]:
        now = found.get_frozen_credentials()  # fetched anew by botocore where they expire
        return {
            "access_key_id": now.access_key,
            "secret_access_key": now.secret_key,
            "token": now.token,
            "expires_at": datetime.now(UTC) + _CREDENTIALS_KEPT,
        }

    region = None if os.environ.get("AWS_REGION") else session.get_config_variable("region")
    return {"credential_provider": credentials, **({"region": region} if region else {})}


def _owner(uri: str) -> str:
    """What the variables of the environment that concern `uri` begin with."""
    return {"gs": "GOOGLE", "az": "AZURE", "abfs": "AZURE", "abfss": "AZURE"}.get(uri.partition("://")[0], "AWS")


@functools.cache
def objects_at(uri: str) -> Objects:
    """The objects below `uri`, through one client a process."""
    return Objects(uri)


@functools.cache
def seconds_behind(objects: Objects) -> float:
    """By how much the clock of this machine is behind that of the store, to within a second; looked at once a process."""
    path = f"locks/clock-{uuid.uuid4().hex}"
    try:
        for _ in range(_LOOKS_AT_THE_CLOCK):
            before = datetime.now(UTC)
            objects.put(path, b"")
            took = datetime.now(UTC) - before
            if took < timedelta(seconds=1):  # else it was sent more than once
                break
        theirs = objects.modified(path)
    finally:
        objects.delete(path)
    return (theirs - before - took / 2).total_seconds() if theirs else 0.0


def require_reachable(uri: str) -> None:
    """Make sure, once a process, that the object store that `uri` is in answers; a folder always does.

    Raises `StoreError` after half a minute at the latest. Lance's own retries take ten minutes to say so.
    """
    bucket = "/".join(uri.split("/")[:3])
    if "://" in uri and bucket not in _reached:
        Objects(uri).get("no-such-object")
        _reached.add(bucket)


@functools.cache
def require_safe_commits(objects: Objects) -> None:
    """Make sure, once a process, that the store can be written to safely from several machines.

    Raises `StoreError` where it does not keep to the conditions of a put, on which every commit relies, or where its clock
    and ours differ by more than `LARGEST_SKEW`.
    """
    path = f"locks/probe-{uuid.uuid4().hex}"
    first = objects.create(path, b"1")
    try:
        kept = first is not None and objects.create(path, b"2") is None
        kept = kept and first is not None and objects.update(path, b"3", first) is not None
        kept = kept and first is not None and objects.update(path, b"4", first) is None
    finally:
        objects.delete(path)
    if not kept:
        raise _without_conditions(objects.uri)
    behind = seconds_behind(objects)
    if abs(behind) > LARGEST_SKEW.total_seconds():
        raise StoreError(
            f"the clock of this machine and that of {objects.uri} differ by {abs(behind):.0f} seconds, and at most"
            f" {LARGEST_SKEW.total_seconds():.0f} are allowed; set it (NTP)"
        )


def _mark(told: Any) -> Mark:
    return {name: told[name] for name in ("e_tag", "version") if told[name] is not None}


def _reason(error: BaseException) -> str:
    """What the store said, in one line: the message of its answer where there is one, or what was asked in vain."""
    message = str(error)
    answer = re.search(r"<Message>(.*?)</Message>", message, re.DOTALL)
    if answer:
        return " ".join(answer[1].split())[:300]
    asked = re.search(r"Error performing ([A-Z]+) ([^\s?]+)\S* in [^\n]*?HTTP error: ([^,\n]+)", message)
    if asked:
        return f"{asked[1]} {asked[2]}: {asked[3]}"
    lines = message.strip().splitlines() or [type(error).__name__]
    return " ".join(lines[0].split())[:300]
