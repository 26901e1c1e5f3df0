"""Both handles, blocking and asyncio, against a service with scripted responses: every promise is checked on both."""
import asyncio
import inspect
import io
import os
import threading
import unittest
from unittest import mock

import capstan
from capstan import RetryPolicy, aio, http_sync

from .fake_service import BROKEN, FakeService

#: Retries without a pause.
QUICK = RetryPolicy(first_pause=0.0, longest_pause=0.0)


class Twin:
    """One of the two handles behind a common interface: results are awaited where necessary."""

    def __init__(self, kind, service, **options):
        self._loop = asyncio.new_event_loop() if kind is aio.Endpoint else None
        self.endpoint = kind("ep1", **{"api_key": "the-key", "base_url": service.url + "/", "retry": QUICK, **options})

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        if self._loop is None:
            http_sync.close()
            return
        self._loop.run_until_complete(aio.close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def settle(self, value):
        if inspect.isawaitable(value):
            return self._loop.run_until_complete(value)
        if hasattr(value, "__anext__"):
            return self._loop.run_until_complete(collect(value))
        return list(value) if inspect.isgenerator(value) else value

    def all_of(self, stream):
        """Returns the chunks up to an error, and the error."""
        found = []

        async def read():
            async for chunk in stream:
                found.append(chunk)

        try:
            if self._loop is not None:
                self._loop.run_until_complete(read())
            else:
                for chunk in stream:
                    found.append(chunk)
        except capstan.CapstanError as error:
            return found, error
        return found, None


async def collect(source):
    return [each async for each in source]


JOB = {"id": "j1", "status": "IN_QUEUE"}
DONE = {"id": "j1", "status": "COMPLETED", "output": 42, "executionTime": 5}


class Handles(unittest.TestCase):
    def twins(self, *answers, chunked=False, **options):
        for kind in (capstan.Endpoint, aio.Endpoint):
            with FakeService(*answers, chunked=chunked) as service, Twin(kind, service, **options) as twin:
                yield service, twin

    def test_run_gives_a_handle_at_once_and_status_and_output_follow_the_job(self):
        for service, twin in self.twins(JOB, {"id": "j1", "status": "IN_PROGRESS"}, {"id": "j1", "status": "IN_PROGRESS"}, DONE):
            job = twin.settle(twin.endpoint.run({"n": 1}, policy={"ttl": 10000}, webhook="https://example.org/hook"))
            self.assertEqual((job.id, job.done, job.error), ("j1", False, None))
            self.assertEqual(twin.settle(job.status()), "IN_PROGRESS")
            self.assertEqual(twin.settle(job.output()), 42)
            self.assertTrue(job.done)
            self.assertEqual(
                service.asked,
                ["POST /v2/ep1/run", "GET /v2/ep1/status/j1", "GET /v2/ep1/status-sync/j1?wait=60000", "GET /v2/ep1/status-sync/j1?wait=60000"],
            )
            self.assertEqual(service.requests[0].body, {"input": {"n": 1}, "policy": {"ttl": 10000}, "webhook": "https://example.org/hook"})
            self.assertEqual({each.headers["authorization"] for each in service.requests}, {"Bearer the-key"})
            self.assertEqual(len(service.connections), 1, "one connection serves all calls")

    def test_run_sync_gives_the_result_also_when_the_first_answer_comes_before_the_end(self):
        for service, twin in self.twins({"id": "sync-1", "status": "IN_PROGRESS"}, {"id": "sync-1", "status": "COMPLETED", "output": None}):
            self.assertIsNone(twin.settle(twin.endpoint.run_sync({"n": 1})))
            self.assertEqual(service.asked, ["POST /v2/ep1/runsync?wait=60000", "GET /v2/ep1/status-sync/sync-1?wait=60000"])

    def test_chunked_answers_are_read(self):
        for _service, twin in self.twins(DONE, DONE, chunked=True):
            self.assertEqual(twin.settle(twin.endpoint.runsync({})), 42)
            self.assertEqual(twin.settle(twin.endpoint.runsync({})), 42)

    def test_an_end_without_a_result_raises_the_function_s_message(self):
        for status, kind in (("FAILED", capstan.JobFailed), ("CANCELLED", capstan.JobCancelled), ("TIMED_OUT", capstan.JobTimedOut)):
            for _service, twin in self.twins({"id": "j1", "status": status, "error": "the reason"}):
                with self.assertRaises(kind) as caught:
                    twin.settle(twin.endpoint.run_sync({}))
                self.assertEqual(str(caught.exception), f"job j1 {status}: the reason")
                self.assertEqual((caught.exception.error, caught.exception.job_id, caught.exception.job.id), ("the reason", "j1", "j1"))

    def test_a_wait_that_is_over_names_the_job_which_runs_on(self):
        for service, twin in self.twins({"id": "j1", "status": "IN_PROGRESS"}, {"id": "j1", "status": "IN_PROGRESS"}):
            with self.assertRaises(capstan.Timeout) as caught:
                twin.settle(twin.endpoint.run_sync({}, timeout=0.05))
            self.assertEqual(caught.exception.job_id, "j1")
            self.assertEqual(service.asked[0], "POST /v2/ep1/runsync?wait=1000")

    def test_429_5xx_and_broken_connections_are_tried_again_under_one_idempotency_key(self):
        for service, twin in self.twins((429, {}, {"Retry-After": "0"}), (503, b"busy"), BROKEN, JOB):
            self.assertEqual(twin.settle(twin.endpoint.run({})).id, "j1")
            self.assertEqual(len(service.requests), 4)
            self.assertEqual(len({each.headers["idempotency-key"] for each in service.requests}), 1)

    def test_two_calls_have_two_keys_and_a_key_of_the_caller_s_own_is_used(self):
        for service, twin in self.twins(JOB, JOB, JOB):
            for options in ({}, {}, {"idempotency_key": "mine"}):
                twin.settle(twin.endpoint.run({}, **options))
            keys = [each.headers["idempotency-key"] for each in service.requests]
            self.assertEqual(len(set(keys)), 3)
            self.assertEqual(keys[2], "mine")

    def test_a_redirection_is_told_and_not_followed(self):
        with FakeService((307, b"", {"location": "https://elsewhere.test/"})) as service:
            with self.assertRaisesRegex(capstan.ApiError, "307: the response is a redirect to https://elsewhere.test/; redirects are not followed"):
                capstan.Endpoint("ep1", api_key="k", base_url=service.url).health()
            self.assertEqual(len(service.requests), 1)

    def test_refusals_are_raised_at_once_each_as_its_own_error(self):
        for status, kind in (
            (400, capstan.BadRequest),
            (401, capstan.AuthenticationError),
            (404, capstan.NotFound),
            (409, capstan.Conflict),
            (413, capstan.PayloadTooLarge),
            (307, capstan.ApiError),
        ):
            problem = {"status": status, "title": "Title", "detail": "input: must be an object"}
            for service, twin in self.twins((status, problem, {"location": "http://127.0.0.1:1/"})):
                with self.assertRaises(kind) as caught:
                    twin.settle(twin.endpoint.run({}))
                self.assertEqual(str(caught.exception), f"POST /v2/ep1/run: {status} Title: input: must be an object")
                self.assertEqual(len(service.requests), 1)

    def test_when_tries_run_out_the_last_reason_is_raised(self):
        for service, twin in self.twins(*[(429, {"title": "Too Many Requests"})] * 9):
            with self.assertRaises(capstan.RateLimited) as caught:
                twin.settle(twin.endpoint.health())
            self.assertEqual((len(service.requests), caught.exception.attempts), (6, 6))

    def test_an_answer_that_is_no_json_and_one_that_is_no_job(self):
        for _service, twin in self.twins((200, b"<html>"), [1]):
            with self.assertRaisesRegex(capstan.ConnectionFailed, "POST /v2/ep1/run: the response is not JSON"):
                twin.settle(twin.endpoint.run({}))
            with self.assertRaisesRegex(capstan.ConnectionFailed, "the response is not a job"):
                twin.settle(twin.endpoint.run({}))

    def test_nobody_there(self):
        for kind in (capstan.Endpoint, aio.Endpoint):
            with FakeService() as service:
                url = service.url
            service.url = url
            with Twin(kind, service, retry=RetryPolicy(retries=0)) as twin:
                with self.assertRaisesRegex(capstan.ConnectionFailed, "GET /v2/ep1/health: cannot connect to " + url + ": .*(refused|Connect call failed).* CAPSTAN_URL .* capstan up") as caught:
                    twin.settle(twin.endpoint.health())
                self.assertIsInstance(caught.exception.__cause__, OSError)

    def test_retries_are_told_on_stderr_once_for_an_address(self):
        for kind in (capstan.Endpoint, aio.Endpoint):
            busy = (503, {"title": "Service Unavailable", "detail": "service unavailable: \x1btry again"})
            with FakeService(busy, busy, (200, {}), busy, (200, {})) as service, Twin(kind, service) as twin:
                with mock.patch("sys.stderr", new=io.StringIO()) as printed:
                    twin.settle(twin.endpoint.health())
                    twin.settle(twin.endpoint.health())
                self.assertEqual(
                    printed.getvalue(),
                    "capstan: GET /v2/ep1/health: 503 Service Unavailable:  try again; retrying up to 5 times\n",
                )

    def test_what_is_no_json_is_refused_before_any_call(self):
        for service, twin in self.twins():
            with self.assertRaisesRegex(TypeError, "the input is not JSON"):
                twin.settle(twin.endpoint.run({"x": object()}))
            self.assertEqual(service.requests, [])

    def test_cancel_retry_and_purge(self):
        for service, twin in self.twins({"id": "j1", "status": "CANCELLED"}, {"id": "j1", "status": "IN_QUEUE"}, {"removed": 2, "status": "completed"}):
            job = twin.endpoint.job("j1")
            twin.settle(job.cancel())
            self.assertTrue(job.done)
            twin.settle(job.retry())
            self.assertFalse(job.done)
            self.assertEqual(twin.settle(twin.endpoint.purge_queue()), 2)
            self.assertEqual(service.asked, ["POST /v2/ep1/cancel/j1", "POST /v2/ep1/retry/j1", "POST /v2/ep1/purge-queue"])

    def test_a_cancel_whose_first_answer_was_lost_has_happened(self):
        for _service, twin in self.twins(BROKEN, (409, {"detail": "it has ended"}), {"id": "j1", "status": "CANCELLED"}):
            job = twin.endpoint.job("j1")
            twin.settle(job.cancel())
            self.assertTrue(job.done)
        for _service, twin in self.twins((409, {"detail": "it has ended"})):
            with self.assertRaises(capstan.Conflict):
                twin.settle(twin.endpoint.job("j1").cancel())

    def test_a_stream_follows_the_job_and_misses_nothing(self):
        def page(status, *chunks):
            return {"status": status, "stream": [{"output": chunk} for chunk in chunks]}

        for service, twin in self.twins(
            (200, page("IN_PROGRESS", "a", "b"), {"capstan-stream-cursor": "1.2"}),
            BROKEN,
            (200, page("IN_PROGRESS"), {"capstan-stream-cursor": "1.2"}),
            (200, page("COMPLETED", "c"), {"capstan-stream-cursor": "1.3"}),
        ):
            self.assertEqual(twin.all_of(twin.endpoint.job("j1").stream()), (["a", "b", "c"], None))
            self.assertEqual(
                service.asked,
                ["GET /v2/ep1/stream/j1?wait=8000&after=0.0"] + ["GET /v2/ep1/stream/j1?wait=8000&after=1.2"] * 3,
            )

    def test_of_a_service_that_keeps_no_place_lost_chunks_come_from_the_output(self):
        first = {"status": "IN_PROGRESS", "stream": [{"output": 1}]}
        done = {"id": "j1", "status": "COMPLETED", "output": [1, 2, 3]}
        for service, twin in self.twins(first, BROKEN, done):
            self.assertEqual(twin.all_of(twin.endpoint.job("j1").stream()), ([1, 2, 3], None))
            self.assertEqual(service.asked[-1], "GET /v2/ep1/status-sync/j1?wait=60000")

    def test_a_stream_of_a_job_that_fails_raises_after_its_chunks(self):
        for _service, twin in self.twins({"status": "FAILED", "stream": [{"output": 1}], "error": "midway"}):
            chunks, error = twin.all_of(twin.endpoint.job("j1").stream())
            self.assertEqual(chunks, [1])
            self.assertIsInstance(error, capstan.JobFailed)
            self.assertEqual(error.error, "midway")

    def test_health_and_snapshot(self):
        health = {"jobs": {"inQueue": 1}, "workers": {"idle": 1}}
        snapshot = {"id": "j1", "status": "IN_QUEUE", "queueReason": "NO_CAPACITY", "retries": 1, "delayTime": 3}
        for _service, twin in self.twins(health, snapshot):
            self.assertEqual(twin.settle(twin.endpoint.health()), health)
            found = twin.settle(twin.endpoint.job("j1").snapshot())
            self.assertEqual((found.queue_reason, found.retries, found.delay_time, found.done), ("NO_CAPACITY", 1, 3, False))


class Accounts(unittest.TestCase):
    def tearDown(self):
        capstan.api_key = capstan.base_url = None
        http_sync.close()

    def test_the_module_s_key_and_address_count_when_a_call_is_made(self):
        endpoint = capstan.Endpoint("ep1")
        with FakeService({}, {}, {}) as service:
            capstan.base_url = service.url
            capstan.api_key = "one"
            endpoint.health()
            capstan.api_key = None
            with mock.patch.dict(os.environ, {"SERVICE_API_KEY": "two", "CAPSTAN_WORKER_TOKEN": "three"}):
                endpoint.health()
            with mock.patch.dict(os.environ, {"SERVICE_API_KEY": "", "CAPSTAN_WORKER_TOKEN": "three"}):
                endpoint.health()
            self.assertEqual([each.headers["authorization"] for each in service.requests], ["Bearer one", "Bearer two", "Bearer three"])

    def test_no_key_is_told_before_any_call_and_no_key_is_shown(self):
        with mock.patch.dict(os.environ, {"SERVICE_API_KEY": "", "CAPSTAN_WORKER_TOKEN": ""}):
            with self.assertRaisesRegex(capstan.AuthenticationError, "no API key: set capstan.api_key or SERVICE_API_KEY"):
                capstan.Endpoint("ep1").run({})
        endpoint = capstan.Endpoint("ep1", api_key="hidden")
        self.assertNotIn("hidden", repr(endpoint) + repr(endpoint._connection()))

    def test_an_address_without_a_scheme_and_a_broken_key_are_refused_and_the_key_is_not_shown(self):
        with self.assertRaisesRegex(capstan.DeclarationError, "base_url must start with http:// or https://, not 'localhost:8080'"):
            capstan.Endpoint("ep1", api_key="k", base_url="localhost:8080").health()
        with self.assertRaises(capstan.DeclarationError) as caught:
            capstan.Endpoint("ep1", api_key="hid\nden").health()
        self.assertNotIn("den", str(caught.exception))

    def test_many_threads_share_a_handle(self):
        with FakeService(*[DONE] * 20) as service:
            endpoint = capstan.Endpoint("ep1", api_key="k", base_url=service.url)
            found = []
            threads = [threading.Thread(target=lambda: found.append(endpoint.run_sync({}))) for _ in range(20)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            self.assertEqual(found, [42] * 20)

    def test_a_connection_that_was_closed_while_idle_costs_no_try(self):
        with FakeService({}, BROKEN, {}) as service:
            # No retries are left, yet the second call succeeds: the broken connection was an idle one.
            endpoint = capstan.Endpoint("ep1", api_key="k", base_url=service.url, retry=RetryPolicy(retries=0))
            endpoint.health()
            endpoint.health()
            self.assertEqual(len(service.requests), 3)

    def test_cancelling_an_asynchronous_call_ends_it(self):
        async def scenario():
            asked = asyncio.Event()
            open_ones = []

            async def accept(_reader, writer):
                open_ones.append(writer)
                asked.set()

            server = await asyncio.start_server(accept, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            call = asyncio.ensure_future(aio.Endpoint("ep1", api_key="k", base_url=f"http://127.0.0.1:{port}").health())
            await asked.wait()
            call.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await call
            for writer in open_ones:
                writer.close()
                await writer.wait_closed()
            server.close()
            await server.wait_closed()

        asyncio.run(scenario())


if __name__ == "__main__":
    unittest.main()
