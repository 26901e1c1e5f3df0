"""A worker on the public package `runpod`, as its users write them. Its first argument chooses the kind of handler."""
import asyncio
import os
import sys
import time

import runpod


def answer(order):
    kind = order.get("do")
    if kind == "raise":
        raise ValueError("no luck")
    if kind == "error":
        return {"error": "custom", "detail": 1}
    if kind == "refresh":
        return {"refresh_worker": True, "pid": os.getpid()}
    if kind == "not json":
        return {1, 2}
    return {"empty": {}, "none": None, "list": [1, 2], "pid": os.getpid()}.get(kind, order)


def sync_handler(job):
    order = job["input"]
    if order.get("do") == "trace":
        return {name: job.get(name) for name in ("traceparent", "tracestate")}
    if order.get("do") == "progress":
        runpod.serverless.progress_update(job, {"percent": 50})
        time.sleep(order["seconds"])
    if order.get("do") == "block":
        time.sleep(3600)
    return answer(order)


async def async_handler(job):
    if job["input"].get("do") == "sleep":
        await asyncio.sleep(3600)
    return answer(job["input"])


def generator(job):
    for value in range(job["input"]["count"]):
        yield {"value": value}
    if job["input"].get("do") == "raise":
        raise ValueError("midway")


async def async_generator(job):
    for value in range(job["input"]["count"]):
        yield value


config = {
    "sync": {"handler": sync_handler},
    "async": {"handler": async_handler, "concurrency_modifier": lambda current: 3},
    "generator": {"handler": generator},
    "aggregate": {"handler": async_generator, "return_aggregate_stream": True},
    "refresh": {"handler": sync_handler, "refresh_worker": True},
}[sys.argv.pop(1)]

if __name__ == "__main__":
    runpod.serverless.start(config)
