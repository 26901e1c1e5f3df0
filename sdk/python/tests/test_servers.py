"""Which server an application needs, and where a build's file has it."""
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
