"""
Runs the functions of one worker file for the development server: `run_worker.py <root> <file> <folder of the SDK>`.
Orders come as lines of JSON on standard input, answers leave on file descriptor 3; the end of the input is the end.
"""
import asyncio
import importlib.util
import inspect
import json
import os
import sys
import threading
import traceback


class Context:
    """What a handler may ask about its job; there is no queue here."""

    def __init__(self, job_id):
        self.job_id = job_id
        self.endpoint_id = "dev"
        self.attempt = 1
        self.s3_config = None
        self.stopped = False

    def progress(self, value):
        print("progress: %s" % json.dumps(value))


def main(root, file, sdk):
    answers = os.fdopen(3, "w", encoding="utf-8")
    lock = threading.Lock()

    def say(answer):
        with lock:
            answers.write(json.dumps(answer, allow_nan=False) + "\n")
            answers.flush()

    sys.path[0:1] = [root, os.path.join(root, "python_packages")]
    sys.path.append(sdk)
    os.chdir(root)
    try:
        from capstan import built

        module = built.load_file(root, file)
    except BaseException as error:
        traceback.print_exc()
        say({"t": "failed", "error": message_of(error)})
        return
    say({"t": "ready"})
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    instances = {}
    for line in sys.stdin:
        order = json.loads(line)
        threading.Thread(target=serve, args=(module, instances, loop, order, say), daemon=True).start()


def serve(module, instances, loop, order, say):
    try:
        value = call(module, instances, loop, order)
        say({"t": "ended", "id": order["id"], "value": value})
    except BaseException as error:
        if not isinstance(error, InputError):
            traceback.print_exc()
        say({"t": "threw", "id": order["id"], "error": message_of(error), "input": isinstance(error, InputError)})


class InputError(Exception):
    """The input does not fit the function."""


def call(module, instances, loop, order):
    target = getattr(module, order["function"])
    value = order["input"]
    if inspect.isclass(target):
        if order["function"] not in instances:
            instances[order["function"]] = target()
        target, value = method_of(instances[order["function"]], value)
    by_name = {"input": value} if order["whole"] else dict(value)
    try:
        signature = inspect.signature(target)
        parameters = list(signature.parameters.values())
        if parameters and parameters[-1].name in ("ctx", "context") and parameters[-1].name not in by_name:
            by_name[parameters[-1].name] = Context(order["id"])
        signature.bind(**by_name)
    except TypeError as error:
        raise InputError(str(error)) from None
    return finished(target(**by_name), loop)


def method_of(instance, value):
    public = [name for name in dir(type(instance)) if not name.startswith("_") and callable(getattr(instance, name))]
    if len(public) == 1 and "method" not in value:
        return getattr(instance, public[0]), value
    rest = dict(value)
    name = rest.pop("method", "__call__" if not public else None)
    if name not in public and not (name == "__call__" and not public):
        raise InputError("method must be one of %s" % ", ".join(public))
    return getattr(instance, name), rest


def finished(value, loop):
    if inspect.isawaitable(value):
        async def wait():
            return await value

        value = asyncio.run_coroutine_threadsafe(wait(), loop).result()
    if hasattr(value, "__aiter__"):
        async def collect():
            return [each async for each in value]

        return asyncio.run_coroutine_threadsafe(collect(), loop).result()
    return list(value) if hasattr(value, "__next__") else value


def message_of(error):
    return str(error) or type(error).__name__


if __name__ == "__main__":
    main(*sys.argv[1:])
