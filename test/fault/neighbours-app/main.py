"""Jobs of which one ends the worker of all."""
import asyncio
import ctypes
import os
import signal
import sys
import time


def leave(how):
    if how == "exits":
        sys.exit(1)
    if how == "crashes":
        ctypes.string_at(0)
    if how == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)


async def coroutine(n: int, how: str, ctx):
    await asyncio.sleep(0.5)
    if n == 0:
        leave(how)
    return [n, ctx.attempt]


def thread(n: int, how: str, ctx):
    time.sleep(0.5)
    if n == 0:
        leave(how)
    return [n, ctx.attempt]


begun = 0


async def web_py(n: int, how: str, marker: str = ""):
    """The request 0 ends the worker once three others are in it; in a later life of the worker they return."""
    global begun
    is_later = os.path.exists(marker)
    begun += marker != "" and not is_later
    while n == 0 and begun < 4 and not is_later:
        await asyncio.sleep(0.01)
    if n == 0:
        with open(marker, "a") as lives:
            lives.write("x")
        leave(how)
    if marker != "" and not is_later:
        await asyncio.sleep(60)
    return n
