"""A provider that answers in every form that bytes take on the wire, and an agent that asks for them all."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import zstandard

from afnb.core import awsstream

PAUSE_S = 0.03
TEXT = json.dumps({"text": "größer \u2028 世界 🙂 " * 40}, ensure_ascii=False).encode()
BINARY = bytes(range(256)) * 1024 + b"\xff\xfe\x00\xe9"
LINES = [json.dumps({"message": {"content": c}, "done": c == "d"}).encode() + b"\n" for c in "abcd"]
EVENTS = [b'data: {"t":"a\xe2\x80\xa8b"}\n\n', "data: 世\n\n".encode(), b": ping\n\n", b"data: [DONE]\n\n"]
FRAMES = [awsstream.make("contentBlockDelta", json.dumps({"n": n}).encode()) for n in range(4)]
STREAMS = {
    "chunked": ([TEXT[:7], TEXT[7:]], "application/json"),
    "sse": (EVENTS, "text/event-stream"),
    "ndjson": (LINES, "application/x-ndjson"),
    "aws": (FRAMES, "application/vnd.amazon.eventstream"),
    "cut": (EVENTS[:2], "text/event-stream"),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        with contextlib.suppress(ConnectionError):
            self._answer(self.path.partition("?")[0].rpartition("/")[2], self._body())

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, form: str, asked: bytes) -> None:
        packed: dict[str, Any] = {
            "gzip": gzip.compress,
            "deflate": zlib.compress,
            "zstd": zstandard.ZstdCompressor().compress,
        }
        with contextlib.suppress(ImportError):
            import brotli

            packed["br"] = brotli.compress
        if form in ("gzip", "deflate", "zstd", "br"):
            may = form in (self.headers.get("accept-encoding") or "") and form in packed
            self._whole(
                packed[form](TEXT) if may else TEXT, "application/json", encoding=form if may else None
            )
        elif form == "sse-gzip":
            self._pieces([gzip.compress(b"".join(EVENTS))], "text/event-stream", encoding="gzip")
        elif form in STREAMS:
            parts, kind = STREAMS[form]
            self._pieces(parts, kind, cut=form == "cut")
        elif form == "binary":
            self._whole(BINARY, "application/octet-stream")
        elif form == "empty":
            self._whole(b"", None, status=204)
        elif form in ("404", "500", "429"):
            self._whole(b'{"error":{"message":"no"}}', "application/json", status=int(form))
        else:
            plain = gzip.decompress(asked) if self.headers.get("content-encoding") == "gzip" else asked
            self._whole(json.dumps({"size": len(plain)}).encode(), "application/json")

    def _head(self, status: int, kind: str | None, encoding: str | None) -> None:
        self.send_response(status)
        if kind is not None:
            self.send_header("content-type", kind)
        if encoding is not None:
            self.send_header("content-encoding", encoding)

    def _whole(self, body: bytes, kind: str | None, status: int = 200, encoding: str | None = None) -> None:
        self._head(status, kind, encoding)
        if status != 204:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _pieces(self, parts: list[bytes], kind: str, encoding: str | None = None, cut: bool = False) -> None:
        self._head(200, kind, encoding)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for n, part in enumerate(parts):
            time.sleep(PAUSE_S if n else 0)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
            self.wfile.flush()
        if cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")


@contextlib.contextmanager
def raw_provider() -> Iterator[str]:
    """Run it; gives its origin."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


AGENT = r"""
import gzip, hashlib, http.client, json, os, sys, urllib.parse, zlib

base = urllib.parse.urlsplit(os.environ["RAW_URL"])


def plain(data, coding):
    if coding == "gzip":
        return gzip.decompress(data)
    if coding == "deflate":
        return zlib.decompress(data)
    if coding == "zstd":
        import zstandard
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    if coding == "br":
        import brotli
        return brotli.decompress(data)
    assert coding is None, coding
    return data


def ask(path, body=None, **headers):
    connection = http.client.HTTPConnection(base.hostname, base.port, timeout=20)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    method = "GET" if body is None else "POST"
    connection.request(method, base.path + path, body, headers)
    answer = connection.getresponse()
    try:
        data, cut = answer.read(), False
    except http.client.IncompleteRead as error:
        data, cut = error.partial, True
    connection.close()
    kind = answer.headers.get("content-type")
    data = plain(data, answer.headers.get("content-encoding"))
    return [answer.status, kind, len(data), hashlib.sha256(data).hexdigest()[:16], cut]


said = {}
for form in ("gzip", "deflate", "zstd", "br"):
    said[form] = ask(f"/v1/{form}", b"{}", accept_encoding=form, content_type="application/json")
for form in ("sse-gzip", "chunked", "sse", "ndjson", "aws", "cut", "404", "500", "429"):
    said[form] = ask(f"/v1/{form}", b"{}", content_type="application/json")
for form in ("binary", "empty"):
    said[form] = ask(f"/v1/{form}")
edge = os.urandom(9).hex()
part = 'content-disposition: form-data; name="file"; filename="a.bin"\r\ncontent-type: application/zip'
form = f"--{edge}\r\n{part}\r\n\r\n".encode() + b"\xff\x00\xfe binary" + f"\r\n--{edge}--\r\n".encode()
said["multipart"] = ask("/v1/files", form, content_type=f"multipart/form-data; boundary={edge}")
said["packed"] = ask("/v1/packed", gzip.compress(b'{"a": 1}', mtime=len(sys.argv)), content_encoding="gzip")
said["pieces"] = ask("/v1/pieces", iter([b"x" * 70000, b"y"]))
said["large"] = ask("/v1/large", b"\x00\xff" * 2_000_000, content_type="application/octet-stream")
if "-w" in sys.argv:
    said["socket"] = ask("/v1/realtime", upgrade="websocket", connection="upgrade")[:2]
print(json.dumps(said))
"""
