"""A small HTTP server with scripted responses that records its requests."""
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: A response that breaks the connection instead.
BROKEN = object()


class Seen:
    def __init__(self, method, path, headers, body):
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body

    def __str__(self):
        return f"{self.method} {self.path}"


class FakeService:
    """``answers``: one response per request, in order: a body, (status, body) or (status, body, headers)."""

    def __init__(self, *answers, chunked=False):
        self.answers = list(answers)
        self.requests = []
        self.connections = set()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_args):
                return

            def answer(self):
                length = int(self.headers.get("content-length") or 0)
                data = self.rfile.read(length)
                service.connections.add(self.client_address)
                answer = service.answers[len(service.requests)] if len(service.requests) < len(service.answers) else (500, "one too many")
                service.requests.append(
                    Seen(self.command, self.path, {key.lower(): value for key, value in self.headers.items()}, json.loads(data) if data else None)
                )
                if answer is BROKEN:
                    self.close_connection = True
                    return
                status, body, headers = (answer + ({},))[:3] if isinstance(answer, tuple) else (200, answer, {})
                text = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                if chunked:
                    self.send_header("transfer-encoding", "chunked")
                    self.end_headers()
                    for at in range(0, len(text), 5):
                        piece = text[at : at + 5]
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.write(b"0\r\n\r\n")
                    return
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            # Many connections arrive at once: one that is not accepted immediately returns a second later.
            request_queue_size = 128

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def asked(self):
        return [str(each) for each in self.requests]
