"""Where alerts go, driven by the commands."""

import http.server
import threading
from collections.abc import Generator
from contextlib import contextmanager

from homeostat.testing.homeostat import HomeostatServer
from tests.e2e.test_keys import homeostat


@contextmanager
def pager(status: int) -> Generator[tuple[str, list[str]]]:
    """A place that takes alerts and answers with this status; what it was sent."""
    heard: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the signature is the base's
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/hook", heard
        server.shutdown()


def test_webhooks_are_made_tried_looked_at_and_ended() -> None:
    with HomeostatServer() as server, pager(204) as (place, heard), pager(500) as (broken, _):
        at = {"HOMEOSTAT_URL": server.url}
        assert "There are no webhooks." in homeostat("webhook", "list", **at).stderr
        made = homeostat("webhook", "add", "on call", place, "--kind", "phase", "--allow-private", **at)
        assert (made.returncode, made.stdout[:6]) == (0, "whsec_"), made.stderr
        listed = homeostat("webhook", "list", **at).stdout
        assert place in listed
        assert "whsec_" not in listed
        tried = homeostat("webhook", "test", "on call", **at)
        assert (tried.returncode, tried.stdout) == (0, "on call: delivered: HTTP 204\n"), tried.stderr
        assert "this is a test" in heard[0]
        log = homeostat("webhook", "deliveries", "on call", **at).stdout
        assert "delivered: HTTP 204" in log

        homeostat("webhook", "add", "broken", broken, "--allow-private", **at)
        tried = homeostat("webhook", "test", "broken", **at)
        assert (tried.returncode, tried.stdout) == (1, "broken: not delivered yet: HTTP 500\n"), tried.stderr
        assert "tried again in" in homeostat("webhook", "deliveries", "broken", **at).stdout

        assert homeostat("webhook", "remove", "on call", **at).returncode == 0
        assert place not in homeostat("webhook", "list", **at).stdout
        gone = homeostat("webhook", "test", "on call", **at)
        assert gone.returncode == 1
        assert "on call" in gone.stderr
        wrong = homeostat("webhook", "add", "x", "ftp://nowhere", **at)
        assert wrong.returncode == 1
        assert "url" in wrong.stderr
