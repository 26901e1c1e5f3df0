/** The functions of functions-typescript.ts, in Python. */
export const PYTHON_FUNCTIONS = `
import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

calls = 0
gates = {}


def typed(text: str, count: int, ratio: float = 0.5, flag: bool = False, list: list = None, more: 'dict[str, int]' = None):
    return [text, count, ratio, flag, list or [], more or {}]
def add(a, b): return a + b
async def later(value):
    await asyncio.sleep(0.001)
    return value
def nothing(): pass
def fails(message): raise Exception(message)
def throwsText(): raise RuntimeError("plain text")
def throwsObject(): raise ValueError('{"code":7}')
async def rejects():
    await asyncio.sleep(0.001)
    raise TypeError("rejected")
def big(): return complex(1, 2)
def cycle():
    a = {}
    a["a"] = a
    return a
def large(bytes): return "x" * bytes
def count(to):
    for i in range(to):
        yield i
async def countLater(to):
    for i in range(to):
        await asyncio.sleep(0.001)
        yield {"i": i}
def failsMidway():
    yield "first"
    raise Exception("midway")
def largeChunk(bytes): yield "x" * bytes
def endless():
    i = 0
    while True:
        yield i
        i += 1
def scratch():
    with open("out.txt", "w") as file: file.write("written")
    with open("deep/new.txt", "w") as file: file.write("beside")
    return [open(name).read() for name in ["data.json", "deep/table.txt", "out.txt", "deep/new.txt"]]
def environment(names): return [os.environ.get(name) for name in names]
def counter():
    global calls
    calls += 1
    return calls
def prints(text):
    print(text)
    print("err " + text, file=sys.stderr)
    return text
def context(ctx):
    return {"jobId": ctx.job_id, "endpointId": ctx.endpoint_id, "attempt": ctx.attempt, "s3": ctx.s3_config, "aborted": ctx.stopped}
async def progress(ctx):
    ctx.progress({"percent": 50})
    await asyncio.sleep(0.02)
    return "done"
async def obedient(ctx): await asyncio.sleep(3600)
async def deaf():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
def busy():
    while True:
        pass
def stuck(): subprocess.run(["sleep", "300"])
def exits(code): sys.exit(code)
def crashes(): os.kill(os.getpid(), signal.SIGKILL)
def waits(gate):
    gates[gate] = threading.Event()
    gates[gate].wait()
    return gate
def child(): return subprocess.Popen(["sleep", "300"]).pid
def hogs():
    kept = []
    while True:
        kept.append(bytearray(b"x") * (16 * 1024 * 1024))
        time.sleep(0.005)

class Counter:
    """Two public methods: the input says which."""
    made = 0

    def __init__(self):
        Counter.made += 1
        self.total = 0

    def add(self, by):
        self.total += by
        return {"total": self.total, "made": Counter.made}

    async def later(self, by, ctx):
        await asyncio.sleep(0.001)
        return [by, ctx.job_id]

    def chunks(self, to):
        for i in range(to):
            yield i

    def _hidden(self):
        return "hidden"

class Sole:
    """One public method: the input is its own."""
    def __init__(self):
        self.prefix = "sole "

    def greet(self, name):
        return self.prefix + name

class Hidden:
    def _only(self):
        return 1

class Unmade:
    def __init__(self):
        raise Exception("cannot be made")

    def run(self):
        return 1
`;
