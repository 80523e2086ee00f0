"""moto's S3 server, which takes one request at a time: with a thread a request, moto lets two conditional puts of one key
pass at once, which no store does.

    python moto_server.py PORT [ignore-conditions]
"""

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

_CONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")


class Dispatcher(DomainDispatcherApplication):
    """Asks once, and not at each request, which of all services of AWS a host names: that took a fifth of the time."""

    get_backend_for_host = functools.cache(DomainDispatcherApplication.get_backend_for_host)


class WithoutConditions:
    """A store that takes every put, whatever its conditions."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        kept = {name: value for name, value in environ.items() if name not in _CONDITIONS}
        return self._application(kept, start_response)


def serve(port: int, *, conditions: bool) -> None:
    """Serve on `port` of loopback until the process ends."""
    application: Any = Dispatcher(create_backend_app)
    served = application if conditions else WithoutConditions(application)
    run_simple("127.0.0.1", port, served, threaded=False, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    serve(int(sys.argv[1]), conditions="ignore-conditions" not in sys.argv[2:])
