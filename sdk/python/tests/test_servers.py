"""Which server an application needs, and where a build's file has it."""
import asyncio
import functools
import sys
import tempfile
import unittest
from pathlib import Path

from capstan import built, registry, servers


async def asgi(scope, receive, send):
    pass


def plain_asgi(scope, receive, send):
    pass


def wsgi(environ, start_response):
    return []


class Asgi:
    async def __call__(self, scope, receive, send):
        pass


class Wsgi:
    def __call__(self, environ, start_response, *, extra=None):
        return []


class DoubleCallable:
    def __init__(self, scope):
        pass


class Interfaces(unittest.TestCase):
    def test_interface(self):
        cases = [
            (asgi, "asgi3"),
            (plain_asgi, "asgi3"),
            (Asgi(), "asgi3"),
            (DoubleCallable, "asgi2"),
            (lambda scope: asgi, "asgi2"),
            (wsgi, "wsgi"),
            (Wsgi(), "wsgi"),
            (Wsgi().__call__, "wsgi"),
            (functools.partial(asgi), "asgi3"),
        ]
        for app, interface in cases:
            with self.subTest(app=app):
                self.assertEqual(servers.interface_of(app), interface)

    def test_no_application(self):
        for app in [5, None, "main:app", lambda: wsgi, lambda a, b, c, d: None]:
            with self.subTest(app=app), self.assertRaisesRegex(TypeError, "ASGI or WSGI"):
                servers.interface_of(app)


class Applications(unittest.TestCase):
    def test_application_of_a_file(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = folder.name
        file = Path(root) / "site_under_test.py"
        file.write_text(
            "import types\napp = 1\nweb = types.SimpleNamespace(app=2)\ndef create(): return 3\n"
            "from capstan import Endpoint\nEndpoint(name='held', app=lambda environ, start_response: [])\n"
        )
        path = list(sys.path)
        self.addCleanup(lambda: sys.path.__setitem__(slice(None), path))
        sys.path.insert(0, root)
        self.addCleanup(sys.modules.pop, "site_under_test", None)
        self.addCleanup(registry.forget, str(file))
        self.assertEqual(built.app_of(root, "site_under_test.py", "app"), 1)
        self.assertEqual(built.app_of(root, "site_under_test.py", "web.app"), 2)
        self.assertEqual(built.app_of(root, "site_under_test.py", "create()"), 3)
        with self.assertRaisesRegex(ImportError, r"site_under_test\.py has no other"):
            built.app_of(root, "site_under_test.py", "other")
        self.assertTrue(callable(built.declared_app(root, "site_under_test.py", "held")))
        with self.assertRaisesRegex(ImportError, "did not declare the endpoint none"):
            built.declared_app(root, "site_under_test.py", "none")


class Prefixes(unittest.TestCase):
    def test_asgi_learns_its_prefix(self):
        seen = []

        async def app(scope, receive, send):
            seen.append(scope)

        headers = [(b"host", b"h"), (b"x-forwarded-prefix", b"/lb/shop")]
        http = {"type": "http", "path": "/docs", "raw_path": b"/docs", "root_path": "", "headers": headers}
        for scope in (http, {**http, "headers": headers[:1]}, {"type": "lifespan"}):
            asyncio.run(servers._below_prefix(app)(scope, None, None))
        below, own, lifespan = seen
        self.assertEqual((below["root_path"], below["path"], below["raw_path"]), ("/lb/shop", "/lb/shop/docs", b"/lb/shop/docs"))
        self.assertEqual(below["headers"], headers[:1])
        self.assertEqual((own["root_path"], own["path"]), ("", "/docs"))
        self.assertEqual(lifespan, {"type": "lifespan"})

    def test_wsgi_learns_its_prefix(self):
        seen = []
        app = servers._below_script_name(lambda environ, start_response: seen.append(environ))
        app({"PATH_INFO": "/a", "HTTP_X_FORWARDED_PREFIX": "/lb/shop"}, None)
        app({"PATH_INFO": "/a"}, None)
        self.assertEqual([(each["SCRIPT_NAME"], each["PATH_INFO"]) for each in seen], [("/lb/shop", "/a"), ("", "/a")])
        self.assertNotIn("HTTP_X_FORWARDED_PREFIX", seen[0])
