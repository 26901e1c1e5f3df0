"""Which server an application needs, and where a build's file has it."""
import asyncio
import functools
import sys

import pytest

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


@pytest.mark.parametrize(
    "app, interface",
    [
        (asgi, "asgi3"),
        (plain_asgi, "asgi3"),
        (Asgi(), "asgi3"),
        (DoubleCallable, "asgi2"),
        (lambda scope: asgi, "asgi2"),
        (wsgi, "wsgi"),
        (Wsgi(), "wsgi"),
        (Wsgi().__call__, "wsgi"),
        (functools.partial(asgi), "asgi3"),
    ],
)
def test_interface(app, interface):
    assert servers.interface_of(app) == interface


@pytest.mark.parametrize("app", [5, None, "main:app", lambda: wsgi, lambda a, b, c, d: None])
def test_no_application(app):
    with pytest.raises(TypeError, match="ASGI or WSGI"):
        servers.interface_of(app)


def test_application_of_a_file(tmp_path, monkeypatch):
    (tmp_path / "site_under_test.py").write_text(
        "import types\napp = 1\nweb = types.SimpleNamespace(app=2)\ndef create(): return 3\n"
        "from capstan import Endpoint\nEndpoint(name='held', app=lambda environ, start_response: [])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    root = str(tmp_path)
    assert built.app_of(root, "site_under_test.py", "app") == 1
    assert built.app_of(root, "site_under_test.py", "web.app") == 2
    assert built.app_of(root, "site_under_test.py", "create()") == 3
    with pytest.raises(ImportError, match=r"site_under_test\.py has no other"):
        built.app_of(root, "site_under_test.py", "other")
    assert callable(built.declared_app(root, "site_under_test.py", "held"))
    with pytest.raises(ImportError, match="did not declare the endpoint none"):
        built.declared_app(root, "site_under_test.py", "none")
    registry.forget(str(tmp_path / "site_under_test.py"))
    sys.modules.pop("site_under_test")


def test_asgi_learns_its_prefix():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope)

    headers = [(b"host", b"h"), (b"x-forwarded-prefix", b"/lb/shop")]
    http = {"type": "http", "path": "/docs", "raw_path": b"/docs", "root_path": "", "headers": headers}
    for scope in (http, {**http, "headers": headers[:1]}, {"type": "lifespan"}):
        asyncio.run(servers._below_prefix(app)(scope, None, None))
    below, own, lifespan = seen
    assert (below["root_path"], below["path"], below["raw_path"]) == ("/lb/shop", "/lb/shop/docs", b"/lb/shop/docs")
    assert below["headers"] == headers[:1]
    assert (own["root_path"], own["path"]) == ("", "/docs")
    assert lifespan == {"type": "lifespan"}


def test_wsgi_learns_its_prefix():
    seen = []
    app = servers._below_script_name(lambda environ, start_response: seen.append(environ))
    app({"PATH_INFO": "/a", "HTTP_X_FORWARDED_PREFIX": "/lb/shop"}, None)
    app({"PATH_INFO": "/a"}, None)
    assert [(each["SCRIPT_NAME"], each["PATH_INFO"]) for each in seen] == [("/lb/shop", "/a"), ("", "/a")]
    assert "HTTP_X_FORWARDED_PREFIX" not in seen[0]
