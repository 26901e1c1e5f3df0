"""Which server an application needs, and where a build's file has it."""
import asyncio
import functools
import os
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

from capstan import built, own_files, prefixes, registry, servers


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


class OwnFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build, self.work = Path(os.path.realpath(folder.name)) / "build", Path(os.path.realpath(folder.name)) / "work"
        for name in ("static/css/a.css", "static/b.txt", "shop/views.py", "data.json"):
            for root in (self.build, self.work):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.build / name).write_text(name)
            (self.work / name).symlink_to(self.build / name)

    def test_files_of_folders_are_copies_that_may_be_written(self):
        own_files.own_files(str(self.work), str(self.build))
        for name in ("static/css/a.css", "static/b.txt"):
            self.assertFalse((self.work / name).is_symlink())
            self.assertEqual((self.work / name).read_text(), name)
        (self.work / "static/b.txt").write_text("changed")
        self.assertEqual((self.build / "static/b.txt").read_text(), "static/b.txt")
        # Sources and the files beside them stay links.
        self.assertTrue((self.work / "shop/views.py").is_symlink() and (self.work / "data.json").is_symlink())

    def test_a_large_folder_and_development_get_the_folder_of_the_build(self):
        with mock.patch.object(own_files, "MAX_BYTES", 20):
            own_files.own_files(str(self.work), str(self.build))
        self.assertEqual(os.readlink(self.work / "static"), str(self.build / "static"))
        self.setUp()
        own_files.own_files(str(self.work), str(self.build), is_development=True)
        self.assertEqual(os.readlink(self.work / "static"), str(self.build / "static"))

    def test_a_folder_with_files_of_the_worker_stays(self):
        (self.work / "static/own").write_text("")
        own_files.own_files(str(self.work), str(self.build))
        self.assertTrue((self.work / "static/b.txt").is_symlink())


async def _noted(seen, _app, scope, receive, send):
    seen.append(scope)


class Prefixes(unittest.TestCase):
    def test_asgi_learns_its_prefix(self):
        seen = []

        async def app(scope, receive, send):
            seen.append(scope)

        headers = [(b"host", b"h"), (b"x-forwarded-prefix", b"/lb/shop")]
        http = {"type": "http", "path": "/docs", "raw_path": b"/docs", "root_path": "", "headers": headers}
        for scope in (http, {**http, "headers": headers[:1]}, {"type": "lifespan"}):
            asyncio.run(prefixes.below_prefix(app)(scope, None, None))
        below, own, lifespan = seen
        self.assertEqual((below["root_path"], below["path"], below["raw_path"]), ("/lb/shop", "/lb/shop/docs", b"/lb/shop/docs"))
        self.assertEqual(below["headers"], headers[:1])
        self.assertEqual((own["root_path"], own["path"]), ("", "/docs"))
        self.assertEqual(lifespan, {"type": "lifespan"})

    def test_frameworks_that_read_the_path_apart(self):
        cases = [
            # Framework of the application, version of Starlette, whether the path comes without the prefix.
            ("starlette", "0.27.0", True),
            ("starlette", "0.32.0.post1", True),
            ("starlette", "0.33.0", False),
            ("starlette", "1.0.0", False),
            ("falcon", None, True),
            ("litestar", "0.27.0", False),
            ("quart", None, False),
        ]
        for framework, starlette, is_apart in cases:
            kind = type("App", (Asgi,), {"__module__": f"{framework}.asgi"})
            app = kind()
            middleware = type("Middleware", (Asgi,), {"__module__": "starlette.middleware.cors"})()
            middleware.app = app

            async def wrapped(scope, receive, send, inner=None):
                await middleware(scope, receive, send)

            modules = {"falcon": None} if framework == "falcon" else {}
            if starlette is not None:
                modules["starlette"] = types.SimpleNamespace(__version__=starlette)
            with self.subTest(framework=framework, starlette=starlette), mock.patch.dict(sys.modules, modules):
                for each in (app, middleware, functools.partial(wrapped)):
                    self.assertEqual(prefixes.has_path_apart(each), is_apart)
                seen = []
                app_of_it = functools.partial(_noted, seen, kind())
                scope = {"type": "websocket", "path": "/a", "raw_path": b"/a", "root_path": "", "headers": [(b"x-forwarded-prefix", b"/lb/shop")]}
                asyncio.run(prefixes.below_prefix(app_of_it)(scope, None, None))
                self.assertEqual((seen[0]["root_path"], seen[0]["path"]), ("/lb/shop", "/a" if is_apart else "/lb/shop/a"))

    def test_an_application_that_sets_its_own_root_path(self):
        app = type("FastAPI", (Asgi,), {"__module__": "starlette.applications"})()
        with mock.patch.dict(sys.modules, {"starlette": types.SimpleNamespace(__version__="0.45.0")}):
            self.assertFalse(prefixes.has_path_apart(app))
            app.root_path = "/api"
            self.assertTrue(prefixes.has_path_apart(app))

    def test_wsgi_learns_its_prefix(self):
        seen = []
        app = prefixes.below_script_name(lambda environ, start_response: seen.append(environ))
        app({"PATH_INFO": "/a", "HTTP_X_FORWARDED_PREFIX": "/lb/shop"}, None)
        app({"PATH_INFO": "/a"}, None)
        self.assertEqual([(each["SCRIPT_NAME"], each["PATH_INFO"]) for each in seen], [("/lb/shop", "/a"), ("", "/a")])
        self.assertNotIn("HTTP_X_FORWARDED_PREFIX", seen[0])
