"""A Hugging Face hub on the loopback, as much of it as ``snapshot_download`` and ``hf_hub_download`` ask for.

Example::

    with HubStandIn() as hub:
        commit = hub.add_repo("org/model", {"config.json": b"{}", "model.safetensors": weights})
        hub.fail(503, times=2)                          # the next two requests
        hub.cut(times=1, on="model.safetensors")        # half of the file, then the connection is gone
        hub.hang(on="/api/")                            # no answer until the stand-in is closed
        snapshot_download("org/model", endpoint=hub.url, cache_dir=...)
        hub.requests                                    # [("GET", "/api/models/org/model"), ...]
"""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import unquote, urlsplit


@dataclass
class Repo:
    """Files of one repo at one commit, by path. ``gated`` hides the files, not the listing, as the real hub does."""

    files: dict[str, bytes]
    commit: str
    gated: bool = False


@dataclass
class Fault:
    """What happens to the next ``times`` requests whose path contains ``on``."""

    kind: Literal["status", "cut", "hang", "body"]
    on: str
    times: float
    status: int = 200
    body: bytes = b""


@dataclass
class HubStandIn:
    """The server; a context manager. Its knobs may be turned while it runs."""

    repos: dict[str, Repo] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def __enter__(self) -> HubStandIn:
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening; harmless when done twice."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """What to pass as ``endpoint``."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add_repo(self, repo_id: str, files: dict[str, bytes], *, gated: bool = False) -> str:
        """Publish a repo, or a new commit of it; the commit hash."""
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.repos[repo_id] = Repo(dict(files), commit, gated)
        return commit

    def fail(self, status: int, *, times: float = float("inf"), on: str = "") -> None:
        """Answer with an error status."""
        self.faults.append(Fault("status", on, times, status))

    def cut(self, *, times: float = float("inf"), on: str = "") -> None:
        """Announce the whole body, send half of it, close the connection."""
        self.faults.append(Fault("cut", on, times))

    def hang(self, *, times: float = float("inf"), on: str = "") -> None:
        """Accept the request and stay silent until the stand-in is closed."""
        self.faults.append(Fault("hang", on, times))

    def answer(self, body: bytes, *, times: float = float("inf"), on: str = "") -> None:
        """Answer 200 with a page of somebody else's making, as a captive portal does."""
        self.faults.append(Fault("body", on, times, body=body))

    def count(self, on: str) -> int:
        """How many requests had ``on`` in their path."""
        return sum(on in path for _, path in self.requests)

    def note(self, method: str, path: str) -> Fault | None:
        """Log a request; the fault it meets, if any."""
        with self._lock:
            self.requests.append((method, path))
            fault = next((fault for fault in self.faults if fault.times > 0 and fault.on in path), None)
            if fault is not None:
                fault.times -= 1
            return fault


class _Handler(BaseHTTPRequestHandler):
    hub: HubStandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Keep quiet: pytest shows stderr of failed tests."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        fault = self.hub.note(self.command, path)
        if fault is not None and fault.kind == "status":
            return self.send(fault.status, b"the stand-in was told to fail")
        if fault is not None and fault.kind == "body":
            return self.send(200, fault.body)
        if fault is not None and fault.kind == "hang":
            self.hub.closing.wait()
            self.close_connection = True
            return None
        cut = fault is not None
        if path.startswith("/api/models/"):
            return self.api(path.removeprefix("/api/models/"), cut)
        repo_id, _, rest = path.removeprefix("/").partition("/resolve/")
        return self.resolve(repo_id, *rest.partition("/")[::2], cut)

    def api(self, rest: str, cut: bool) -> None:
        repo_id = next((known for known in self.hub.repos if f"{rest}/".startswith(f"{known}/")), None)
        if repo_id is None:
            return self.send(404, b"", {"X-Error-Code": "RepoNotFound"})
        repo = self.hub.repos[repo_id]
        what, _, revision = rest.removeprefix(repo_id).removeprefix("/").partition("/")
        if revision not in ("", "main", repo.commit):
            return self.send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        listing: Any
        if what == "tree":
            listing = [
                {"type": "file", "path": name, "size": len(data), "oid": _etag(data)}
                for name, data in repo.files.items()
            ]
        else:
            listing = {"id": repo_id, "sha": repo.commit, "siblings": [{"rfilename": name} for name in repo.files]}
        return self.send(200, json.dumps(listing).encode(), {"Content-Type": "application/json"}, cut=cut)

    def resolve(self, repo_id: str, revision: str, name: str, cut: bool) -> None:
        repo = self.hub.repos.get(repo_id)
        if repo is None:
            return self.send(404, b"", {"X-Error-Code": "RepoNotFound"})
        if repo.gated:
            return self.send(403, b"", {"X-Error-Code": "GatedRepo"})
        if revision not in ("main", repo.commit):
            return self.send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        headers = {"X-Repo-Commit": repo.commit, "Accept-Ranges": "bytes"}
        if name not in repo.files:
            return self.send(404, b"", headers | {"X-Error-Code": "EntryNotFound"})
        data = repo.files[name]
        headers["ETag"] = f'"{_etag(data)}"'
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        return self.send(206 if start else 200, data[start:], headers, cut=cut)

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None, *, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.close_connection = True


def _etag(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()
