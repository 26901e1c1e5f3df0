"""Calls of other endpoints' functions from a worker: manifest, control plane, target."""
import asyncio
import concurrent.futures
import json
import os
import tempfile
import unittest
from unittest import mock

import capstan
from capstan import aio, dispatch, http_sync, manifest, peers, remote, worker

from .fake_service import FakeService

MANIFEST = {
    "resources": {
        "gpu": {"functions": [{"name": "embed", "module": "gpu_worker"}]},
        "api": {"is_load_balanced": True, "functions": [{"name": "item", "module": "lb_worker"}, {"name": "store", "module": "lb_worker"}]},
    },
    "routes": {"api": {"GET /items/{id}": "item", "POST /items/:id": "store"}},
    "function_registry": {"embed": "gpu", "item": "api", "store": "api"},
}


def known(name, kind, url):
    return {"data": {"endpoint": {"id": "id-" + name, "name": name, "kind": kind, "url": url}}}


def done(output):
    return {"id": "sync-1", "status": "COMPLETED", "output": output}


GPU = known("gpu", "QUEUE", "http://public.test/v2/id-gpu")


class Worker(unittest.TestCase):
    """Each test is a worker of the endpoint `cpu` in the environment `staging`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.write(folder.name, MANIFEST)
        self.cache = peers.PeerCache(lambda: self.now)
        self.now = 0.0
        for patch in (
            mock.patch.object(worker, "START_FOLDER", folder.name),
            mock.patch.object(dispatch, "peers", self.cache),
            mock.patch.dict(manifest._read, clear=True),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        self.addCleanup(http_sync.close)

    def write(self, folder, document):
        with open(os.path.join(folder, "tool_manifest.json"), "w", encoding="utf-8") as file:
            json.dump(document, file)

    def service(self, *answers):
        service = FakeService(*answers)
        env = {
            "CAPSTAN_URL": service.url,
            "CAPSTAN_WORKER_TOKEN": "the-token",
            "CAPSTAN_ENVIRONMENT": "staging",
            "CAPSTAN_ENDPOINT_NAME": "cpu",
            "SERVICE_API_KEY": "",
        }
        patch = mock.patch.dict(os.environ, env)
        patch.start()
        self.addCleanup(patch.stop)
        return service


class ByName(Worker):
    def test_a_declared_image_is_called_by_its_name(self):
        image = capstan.Endpoint(name="gpu", image="registry.test/llm:1")
        self.addCleanup(capstan.forget, __file__)
        with self.service(GPU, done("hi"), done("again"), done("async")) as service:
            self.assertEqual(image.run_sync({"prompt": "p"}), "hi")
            self.assertEqual(image.deployed().run_sync({"prompt": "q"}), "again")
            self.assertEqual(asyncio.run(aio.run_sync(image, {"prompt": "r"})), "async")
            self.assertEqual(image.url(), "http://public.test/v2/id-gpu")
            self.assertEqual([each.body["input"] for each in service.requests[1:]], [{"prompt": "p"}, {"prompt": "q"}, {"prompt": "r"}])

    def test_its_error_comes_back_and_a_load_balanced_one_takes_no_jobs(self):
        image = capstan.Endpoint(name="gpu", image="registry.test/llm:1")
        server = capstan.Endpoint(name="api", image="registry.test/server:1", load_balanced=True)
        self.addCleanup(capstan.forget, __file__)
        with self.service(GPU, {"id": "sync-1", "status": "FAILED", "error": "no luck"}, known("api", "LOAD_BALANCED", "http://lb.test/lb/id-api")):
            with self.assertRaises(capstan.RemoteError) as caught:
                image.run_sync({})
            self.assertEqual((str(caught.exception), caught.exception.endpoint), ("no luck", "gpu"))
            self.assertEqual(server.url(), "http://lb.test/lb/id-api")
            with self.assertRaisesRegex(capstan.DispatchError, "api is load-balanced: it serves requests at http://lb.test/lb/id-api, not jobs"):
                server.run_sync({})


class Queues(Worker):
    def test_a_call_looks_the_function_up_asks_the_state_manager_and_runs_the_job(self):
        embed = remote.stub("embed", parameters=("text", "size"))
        with self.service(GPU, done([1, 2])) as service:
            self.assertEqual(embed("hello", size=2), [1, 2])
            self.assertEqual(service.asked, ["POST /graphql", "POST /v2/id-gpu/runsync?wait=60000"])
            self.assertEqual(service.requests[0].body["variables"], {"environment": "staging", "name": "gpu"})
            self.assertIn("endpoint(environment: $environment, name: $name) { id name kind url }", service.requests[0].body["query"])
            self.assertEqual(service.requests[1].body, {"input": {"text": "hello", "size": 2}})
            self.assertEqual({each.headers["authorization"] for each in service.requests}, {"Bearer the-token"})

    def test_the_address_is_trusted_for_300_seconds(self):
        embed = remote.stub("embed", parameters=("text",))
        with self.service(GPU, done(1), done(2), GPU, done(3)) as service:
            self.assertEqual(embed("a"), 1)
            self.now = 299.9
            self.assertEqual(embed("a"), 2)
            self.now = 300.0
            self.assertEqual(embed("a"), 3)
            self.assertEqual([each for each in service.asked if each == "POST /graphql"], ["POST /graphql"] * 2)

    def test_those_who_want_an_address_at_once_ask_for_it_once(self):
        embed = remote.stub("embed", parameters=("text",))
        embed_async = remote.stub("embed", parameters=("text",), is_async=True)

        async def main():
            try:
                return await asyncio.gather(*[embed_async("a") for _ in range(3)])
            finally:
                await aio.close()

        with self.service(GPU, *[done(1)] * 6) as service:
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                loop = pool.submit(asyncio.run, main())
                self.assertEqual(list(pool.map(embed, "abc")) + loop.result(), [1] * 6)
            self.assertEqual(sorted(service.asked), ["POST /graphql"] + ["POST /v2/id-gpu/runsync?wait=60000"] * 6)

    def test_an_endpoint_that_was_made_anew_is_found_again(self):
        embed = remote.stub("embed", parameters=("text",))
        fresh = {"data": {"endpoint": {"id": "id-new", "name": "gpu", "kind": "QUEUE", "url": ""}}}
        with self.service(GPU, done(1), (404, {"detail": "no such endpoint"}), fresh, done(2)) as service:
            embed("a")
            self.assertEqual(embed("a"), 2)
            self.assertEqual(service.asked[2:], ["POST /v2/id-gpu/runsync?wait=60000", "POST /graphql", "POST /v2/id-new/runsync?wait=60000"])

    def test_the_function_s_error_comes_back_as_an_exception_with_its_message(self):
        embed = remote.stub("embed", parameters=("text",))
        with self.service(GPU, {"id": "sync-1", "status": "FAILED", "error": "text is too long"}):
            with self.assertRaises(capstan.RemoteError) as caught:
                embed("a")
            self.assertEqual(str(caught.exception), "text is too long")
            self.assertEqual((caught.exception.function, caught.exception.endpoint, caught.exception.job_id), ("embed", "gpu", "sync-1"))

    def test_an_asynchronous_function_is_awaited(self):
        embed = remote.stub("embed", parameters=("text",), is_async=True)

        async def main():
            try:
                # The first call finds the endpoint: the following concurrent calls may arrive in any order.
                return [await embed("a"), *await asyncio.gather(embed("b"), embed(text="c"))]
            finally:
                await aio.close()

        with self.service(GPU, done(1), done(2), done(3)):
            self.assertEqual(sorted(asyncio.run(main())), [1, 2, 3])

    def test_a_generator_is_streamed(self):
        count = remote.stub("embed", parameters=("to",), is_generator=True)
        page = (200, {"status": "IN_PROGRESS", "stream": [{"output": 0}]}, {"capstan-stream-cursor": "1.1"})
        last = {"status": "FAILED", "stream": [{"output": 1}], "error": "midway"}
        with self.service(GPU, {"id": "j1", "status": "IN_QUEUE"}, page, last):
            found = []
            with self.assertRaises(capstan.RemoteError) as caught:
                for each in count(2):
                    found.append(each)
            self.assertEqual((found, str(caught.exception)), ([0, 1], "midway"))

    def test_a_class_of_another_endpoint(self):
        Model = remote.stub_class("Model", {"embed": {"parameters": ("text",)}, "rank": {"parameters": ("texts",)}}, endpoint="gpu")
        with self.service(GPU, done(1)) as service:
            self.assertEqual(Model().embed("hello"), 1)
            self.assertEqual(service.requests[1].body, {"input": {"method": "embed", "text": "hello"}})
        with self.assertRaisesRegex(capstan.DispatchError, "construct it without arguments"):
            Model("large")

    def test_arguments_that_do_not_fit_are_told_as_the_function_would(self):
        embed = remote.stub("embed", parameters=("text",))
        for args, kwargs, message in (
            (("a", "b"), {}, "takes 1 arguments, not 2"),
            (("a",), {"text": "b"}, "multiple values for the argument text"),
            ((), {"size": 1}, "unexpected argument size"),
        ):
            with self.assertRaisesRegex(TypeError, message):
                embed(*args, **kwargs)
        with self.assertRaisesRegex(TypeError, "takes its arguments by name"):
            remote.stub("embed")("a")
        with self.service(GPU, done(1)) as service:
            remote.stub("embed", parameters=("input",), whole=True)({"a": 1})
            self.assertEqual(service.requests[1].body, {"input": {"a": 1}})


class Routes(Worker):
    def test_path_query_and_body_carry_the_arguments(self):
        item = remote.stub("item", parameters=("id", "full", "tag"))
        store = remote.stub("store", parameters=("id", "value"))
        with self.service() as target:
            target.answers = [known("api", "LOAD_BALANCED", target.url + "/lb/api/"), {"id": 7}, (201, {"stored": True}), (200, b"")]
            self.assertEqual(item("a/b", full=True, tag="x y"), {"id": 7})
            self.assertEqual(store(7, {"deep": [1]}), {"stored": True})
            self.assertIsNone(store(id=8, value=None))
            self.assertEqual(
                target.asked[1:], ["GET /lb/api/items/a%2Fb?full=true&tag=x+y", "POST /lb/api/items/7", "POST /lb/api/items/8"]
            )
            self.assertEqual(target.requests[2].body, {"value": {"deep": [1]}})
            self.assertEqual(target.requests[2].headers["authorization"], "Bearer the-token")

    def test_the_answer_s_detail_is_the_error_and_what_may_have_run_is_not_repeated(self):
        store = remote.stub("store", parameters=("id", "value"))
        with self.service() as target:
            target.answers = [known("api", "LOAD_BALANCED", target.url), (500, {"error": "Internal Server Error", "detail": "no space"})]
            with self.assertRaises(capstan.RemoteError) as caught:
                store(7, 1)
            self.assertEqual((str(caught.exception), caught.exception.status), ("no space", 500))
            self.assertEqual(len(target.requests), 2)

    def test_a_path_needs_its_arguments(self):
        with self.service() as target:
            target.answers = [known("api", "LOAD_BALANCED", target.url)]
            with self.assertRaisesRegex(capstan.DispatchError, "the argument id is required"):
                remote.stub("item", parameters=("id",))()


class Failures(Worker):
    def test_what_is_missing_is_named(self):
        for answer, message in (
            ({"data": {"endpoint": None}}, "the endpoint gpu does not exist in the environment staging"),
            ({"errors": [{"message": "not allowed"}]}, "refused to look up the endpoint gpu: not allowed"),
        ):
            with self.service(answer), self.assertRaisesRegex(capstan.DispatchError, message):
                remote.stub("embed", parameters=())()
        with self.service(), self.assertRaisesRegex(capstan.DispatchError, "no endpoint of this build has the function other"):
            remote.stub("other", parameters=())()

    def test_outside_of_workers_nothing_is_sent(self):
        with mock.patch.dict(os.environ, {"CAPSTAN_URL": "", "CAPSTAN_WORKER_TOKEN": ""}):
            with self.assertRaisesRegex(capstan.DispatchError, "CAPSTAN_URL is not set: only deployed workers"):
                remote.stub("embed", parameters=())()


class Declarations(Worker):
    def test_what_another_endpoint_declares_is_a_stub_and_the_own_is_itself(self):
        with self.service(GPU, done([3])) as service:

            @capstan.Endpoint(name="gpu", gpu="ANY")
            def embed(text: str, ctx=None):
                """Embeds a text."""
                raise AssertionError("this is not its worker")

            @capstan.Endpoint(name="cpu")
            def own(text: str):
                return text

            self.assertEqual(own("here"), "here")
            self.assertEqual(embed("there"), [3])
            self.assertEqual(embed.__doc__, "Embeds a text.")
            self.assertEqual(service.requests[1].body, {"input": {"text": "there"}})

    def test_a_class_another_endpoint_declares(self):
        with self.service(GPU, done(5)) as service:

            @capstan.Endpoint(name="gpu")
            class Model:
                def __init__(self):
                    raise AssertionError("this is not its worker")

                def embed(self, text):
                    return text

            self.assertEqual(Model().embed(text="x"), 5)
            self.assertEqual(service.requests[1].body, {"input": {"method": "embed", "text": "x"}})


if __name__ == "__main__":
    unittest.main()
