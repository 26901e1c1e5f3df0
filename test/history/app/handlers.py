"""Handlers that append what they do to a file outside the service, and return what names the execution that made it."""
import json
import os
import random
import time
import uuid


def work_py(input, record, ms, failing, bytes, context):
    """Takes `ms` ms, then returns, or fails with the probability `failing`. `bytes` is the size of the output's padding."""
    execution = enter(record, input, context)
    wait_or_stop(record, execution, ms, context)
    if random.random() < failing:
        fail(record, execution)
    append(record, kind="exit", execution=execution, how="returned")
    return {"execution": execution, "input": input, "pad": padding(input, bytes)}


def series_py(input, record, ms, failing, bytes, count, context):
    """Yields `count` chunks, `ms` ms apart; fails before each with the probability `failing`."""
    execution = enter(record, input, context)
    for index in range(count):
        if random.random() < failing:
            fail(record, execution)
        append(record, kind="chunk", execution=execution, index=index)
        yield {"execution": execution, "input": input, "index": index, "pad": padding(input, bytes)}
        wait_or_stop(record, execution, ms, context)
    append(record, kind="exit", execution=execution, how="returned")


def enter(record, input, context):
    execution = str(uuid.uuid4())
    append(record, kind="enter", execution=execution, job=context.job_id, input=input, attempt=context.attempt, pid=os.getpid())
    print(execution, "enters")
    return execution


def wait_or_stop(record, execution, ms, context):
    until = time.monotonic() + ms / 1000
    while time.monotonic() < until:
        if context.stopped:
            append(record, kind="exit", execution=execution, how="stopped")
            raise RuntimeError("stopped")
        time.sleep(min(0.01, max(0, until - time.monotonic())))


def fail(record, execution):
    append(record, kind="exit", execution=execution, how="failed")
    raise RuntimeError("fails on purpose in " + execution)


def padding(input, bytes):
    """The same bytes for the same input, so that bytes of another job are noticed."""
    unit = input + " "
    return (unit * (bytes // len(unit) + 1))[:bytes]


def append(record, **line):
    """One write a line: appended whole, also beside other workers and right before a SIGKILL."""
    text = json.dumps({"at": time.monotonic_ns() // 1000 / 1000, **line}) + "\n"
    file = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
