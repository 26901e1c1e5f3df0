"""Tells the agent which task or request ends this process: the others did nothing wrong."""
import contextvars
import functools
import os
import sys

# The key of the task or request that the current code belongs to.
current_key = contextvars.ContextVar("capstan_key", default=None)


def report_culprit(channel, key):
    """Never waits for long: the process is about to end."""
    if key is not None:
        channel.send_last({"t": "culprit", "key": key})


def watch_exits(channel):
    """Makes os._exit() and os.abort() report the code that calls them. Children that user code forks report nothing."""
    for name in ("_exit", "abort"):
        setattr(os, name, _reporting(getattr(os, name), channel))


def _reporting(end, channel):
    @functools.wraps(end)
    def reporting(*args, **kwargs):
        report_culprit(channel, current_key.get())
        return end(*args, **kwargs)

    return reporting


def end_process(code):
    """Ends the process as sys.exit(code) does, at once: the interpreter would wait for threads that wait for it."""
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if code is None else code & 0xFF if isinstance(code, int) else 1)


def run_loop(loop, channel):
    """Runs an event loop until code in it ends the process: sys.exit() in a task of its own passes through the loop."""
    while True:
        try:
            # User code may stop it.
            loop.run_forever()
        except BaseException as error:
            report_culprit(channel, _key_of(error))
            raise


def _key_of(error):
    """Returns the key of the callback that raised the error: the loop ran it in a context of its own."""
    key = None
    trace = error.__traceback__
    while trace is not None:
        context = getattr(trace.tb_frame.f_locals.get("self"), "_context", None)
        if isinstance(context, contextvars.Context):
            key = context.get(current_key)
        trace = trace.tb_next
    return key
