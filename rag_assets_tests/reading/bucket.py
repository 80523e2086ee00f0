"""A server that speaks S3 on loopback (moto, in a process of its own), and a bucket in it.

Objects are put by plain HTTP requests, so that a test does not write with the client that it tests.
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import httpx2

PAGE = 20
"""How many objects the server lists at a time in the tests of sources; S3 lists 1,000."""

# moto looks at who asks, and does not verify the signature.
_SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=someone/20260101/us-east-1/s3/aws4_request, SignedHeaders=host,"
    " Signature=none"
}


class S3Server:
    """`with S3Server() as server:` serves `server.url` until the block ends. It lists `page` objects at a time, and with
    `conditions=False` takes every put, as some stores do."""

    def __init__(self, *, page: int = PAGE, conditions: bool = True) -> None:
        self._page = page
        self._conditions = conditions

    def __enter__(self) -> Self:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("moto_server.py")), str(port)]
        command += [] if self._conditions else ["ignore-conditions"]
        environment = {**os.environ, "MOTO_S3_DEFAULT_MAX_KEYS": str(self._page)}
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}"
        self._client = httpx2.Client(base_url=self.url, headers=_SIGNED, trust_env=False)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                self._client.get("/moto-api/")
                return self
            except httpx2.TransportError:
                time.sleep(0.1)
        raise TimeoutError("the S3 server did not start")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
        self._process.kill()  # it keeps nothing, and a request under way may swallow what terminates it
        self._process.wait()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to use the server, and nothing else of the machine."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "someone",
            "AWS_SECRET_ACCESS_KEY": "knows",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def bucket(self, name: str) -> "Bucket":
        """A new and empty bucket."""
        bucket = Bucket(self._client, name)
        bucket.request("PUT", "")
        return bucket

    def ask_for_credentials(self, *, from_now_on: bool) -> None:
        """Whether every request must be signed by a user that the server knows; it knows none."""
        allowed = "0" if from_now_on else "inf"
        self._client.post("/moto-api/reset-auth", content=allowed).raise_for_status()


class Bucket:
    """A bucket on the server that `client` speaks to."""

    def __init__(self, client: httpx2.Client, name: str) -> None:
        self._client = client
        self.endpoint = str(client.base_url)
        self.name = name

    def put(self, key: str, content: str | bytes) -> None:
        self.request("PUT", key, content.encode() if isinstance(content, str) else content)

    def delete(self, key: str) -> None:
        self.request("DELETE", key)

    def request(self, method: str, key: str, content: bytes = b"") -> None:
        self._client.request(method, f"/{self.name}/{quote(key)}", content=content).raise_for_status()
