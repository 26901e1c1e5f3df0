"""A server of the user's own: what ends it is known to nobody."""
import asyncio
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from main import web_py


class Handler(BaseHTTPRequestHandler):
    # A response leaves as a whole.
    wbufsize = -1

    def do_GET(self):
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/web":
            try:
                asyncio.run(web_py(int(query["n"]), query["how"], query.get("marker", "")))
            except SystemExit:
                os._exit(1)
        body = query.get("n", "").encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
