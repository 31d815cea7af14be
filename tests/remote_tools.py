"""Servers on this machine that hold Zarr hierarchies: S3 (moto) and plain files by http."""

from __future__ import annotations

import os
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

BUCKET = "brains"
_VARIABLES = {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


@contextmanager
def s3_server() -> Iterator[str]:
    """Start an S3 server with an empty bucket, tell the environment, and yield its address."""
    server_module = pytest.importorskip("moto.server", reason="moto is not installed")
    pytest.importorskip("obstore", reason="obstore is not installed")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    before = {name: os.environ.get(name) for name in (*_VARIABLES, "AWS_ENDPOINT_URL")}
    os.environ.update(_VARIABLES, AWS_ENDPOINT_URL=endpoint)
    try:
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")).close()
        yield endpoint
    finally:
        server.stop()
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def upload(folder: Path, name: str) -> str:
    """Put all files of a folder into the bucket and return the address."""
    import obstore
    from obstore.store import S3Store

    store = S3Store(BUCKET, client_options={"allow_http": True})
    for file in folder.rglob("*"):
        if file.is_file():
            obstore.put(store, f"{name}/{file.relative_to(folder).as_posix()}", file.read_bytes())
    return f"s3://{BUCKET}/{name}"


class _Ranges(SimpleHTTPRequestHandler):
    """Files with byte ranges, as every server of images offers them."""

    def do_GET(self) -> None:
        file = Path(self.translate_path(self.path))
        asked = self.headers.get("Range")
        if asked is None or not file.is_file():
            super().do_GET()
            return
        data = file.read_bytes()
        first, last = asked.removeprefix("bytes=").split("-")
        start = int(first) if first else len(data) - int(last)
        stop = min(int(last) + 1, len(data)) if first and last else len(data)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        self.wfile.write(data[start:stop])

    def log_message(self, *args: object) -> None:
        """Keep the test's output clean."""


@contextmanager
def file_server(folder: Path) -> Iterator[str]:
    """Serve a folder by http on this machine and yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Ranges, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
