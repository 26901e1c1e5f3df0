"""Jobs of which one ends the worker of all."""
import asyncio
import os
import signal
import sys
import time


def leave(how):
    if how == "exits":
        sys.exit(1)
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
