"""Routes of the tests of load-balanced endpoints in Python."""
import asyncio
from typing import List


def hello(name: str, times: int = 1):
    return {"hello": name, "times": times}


def item(id: int, verbose: bool = False):
    return {"id": id, "verbose": verbose}


def search(q: str, tags: List[str] = ()):
    return {"q": q, "tags": list(tags)}


def count(to: int):
    for n in range(1, to + 1):
        yield {"n": n}


async def later_count(to: int):
    for n in range(1, to + 1):
        await asyncio.sleep(0)
        yield {"n": n}


async def later(value: float):
    await asyncio.sleep(0)
    return value


def early(request):
    # From the headers alone; the body stays unread.
    return request.Response("too large", 413)


def echo(request):
    headers = {"content-type": request.headers["content-type"], "x-method": request.method}
    return request.Response(request.stream(), 201, headers)


def boom():
    raise ValueError("it broke")


def octets():
    return b"\x00\x01\xff"


def plain(request):
    return request.Response("short and stout", 418)


def invalid(request, how: str):
    """Responses that no caller may get."""
    if how == "value":
        return request.Response("x", 200, {"x-name": "\u4f60\u597d"})
    if how == "split":
        return request.Response("x", 200, {"x-name": "a\r\nset-cookie: b=1"})
    if how == "length":
        return request.Response("x", 200, {"content-length": "5"})
    return request.Response("x", int(how))
