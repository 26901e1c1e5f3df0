"""The public Python client `runpod`, unmodified: one result a line, as JSON, for the test to look at.

usage: runpod_client.py sync|asyncio <endpoint ids as JSON>
"""

import asyncio
import json
import os
import sys

import requests
import runpod

endpoints = json.loads(sys.argv[2])
runpod.api_key = os.environ["RUNPOD_API_KEY"]


def say(name, value):
    print(json.dumps({"name": name, "value": value}), flush=True)


def wait_until_running(job):
    while job.status() != "IN_PROGRESS":
        pass


def run_sync_client():
    echo = runpod.Endpoint(endpoints["echo"])
    say("run_sync", echo.run_sync({"input": {"n": 1}}, timeout=60))
    # The client wraps what has no key `input`.
    say("run_sync wrapped", echo.run_sync({"n": 2}, timeout=60))

    job = echo.run({"input": {"n": 3}})
    say("run", [job.output(timeout=60), job.status()])

    failed = runpod.Endpoint(endpoints["failing"]).run({"input": {"n": 4}})
    say("failed", [failed.output(timeout=60), failed.status()])

    say("stream", list(runpod.Endpoint(endpoints["words"]).run({"input": {"text": "the quick fox"}}).stream()))

    slow = runpod.Endpoint(endpoints["slow"]).run({"input": {"n": 5}})
    wait_until_running(slow)
    say("cancel", slow.cancel()["status"])
    say("cancelled", slow.status())

    parked = runpod.Endpoint(endpoints["parked"])
    waiting = [parked.run({"input": {"n": n}}) for n in range(3)]
    say("health", parked.health())
    say("purge", parked.purge_queue())
    say("purged", [job.status() for job in waiting])

    try:
        runpod.Endpoint(endpoints["echo"], api_key="wrong").run({"input": {"n": 6}})
    except RuntimeError as error:
        say("wrong key", type(error).__name__)
    try:
        runpod.Endpoint("no-such-endpoint").run({"input": {"n": 7}})
    except requests.HTTPError as error:
        say("unknown endpoint", error.response.status_code)


async def run_asyncio_client():
    async with runpod.http_client.AsyncClientSession() as session:
        echo = runpod.AsyncioEndpoint(endpoints["echo"], session)
        job = await echo.run({"n": 1})
        say("run", [await job.output(timeout=60), await job.status()])

        words = await runpod.AsyncioEndpoint(endpoints["words"], session).run({"text": "the quick fox"})
        say("stream", [chunk async for chunk in words.stream()])

        slow = await runpod.AsyncioEndpoint(endpoints["slow"], session).run({"n": 2})
        while await slow.status() != "IN_PROGRESS":
            pass
        say("cancel", (await slow.cancel())["status"])

        parked = runpod.AsyncioEndpoint(endpoints["parked"], session)
        waiting = [await parked.run({"n": n}) for n in range(2)]
        say("health", await parked.health())
        say("purge", await parked.purge_queue())
        say("purged", [await job.status() for job in waiting])


if sys.argv[1] == "sync":
    run_sync_client()
else:
    asyncio.run(run_asyncio_client())
