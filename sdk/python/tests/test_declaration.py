"""Declaring endpoints: what stays callable, what is recorded, what is refused."""
import asyncio
import unittest

import capstan
from capstan import DeclarationError, Endpoint, GpuGroup, ScalerType, Secret


class Declaring(unittest.TestCase):
    def test_a_decorated_function_stays_itself_and_carries_its_declaration(self):
        def length(text: str) -> int:
            return len(text)

        decorated = Endpoint(name="length", gpu=GpuGroup.ANY, workers=(0, 3))(length)
        self.assertIs(decorated, length)
        self.assertEqual(decorated("four"), 4)
        found = decorated.__capstan__
        self.assertEqual((found.name, found.is_class, found.shape.is_async), ("length", False, False))
        self.assertEqual(found.shape.parameters, ("text",))
        self.assertRegex(found.place, r"test_declaration\.py:\d+$")
        self.assertEqual(
            found.endpoint.resource(),
            {
                "workersMin": 0,
                "workersMax": 3,
                "idleTimeout": 60,
                "keepIdle": False,
                "public": False,
                "maxConcurrency": 1,
                "startTimeout": 0,
                "executionTimeoutMs": 0,
                "scalerValue": 4,
                "gpuIds": "ANY",
                "gpuCount": 1,
                "functions": [{"name": "length", "is_async": False, "is_class": False}],
            },
        )

    def test_a_secret_is_a_reference_and_refuses_other_names(self):
        resource = Endpoint(name="chat", env={"TOKEN": Secret("HF_TOKEN"), "URL": "https://x:" + Secret("KEY") + "@host"}).resource()
        self.assertEqual(resource["env"], {"TOKEN": "{{ CAPSTAN_SECRET_HF_TOKEN }}", "URL": "https://x:{{ CAPSTAN_SECRET_KEY }}@host"})
        for name in ("", "1A", "a-b", "A B", "Ä", "A" * 129, "A\n"):
            with self.subTest(name), self.assertRaises(ValueError):
                Secret(name)

    def test_asynchronous_functions_and_generators_are_known_as_such(self):
        @Endpoint(name="later")
        async def later(n, ctx):
            return n

        @Endpoint(name="count")
        def count(to):
            yield from range(to)

        self.assertEqual(asyncio.run(later(1, None)), 1)
        self.assertEqual(list(count(2)), [0, 1])
        self.assertEqual(later.__capstan__.shape, capstan.functions.Shape(("n",), is_async=True))
        self.assertTrue(count.__capstan__.shape.is_generator)

    def test_the_context_is_ctx_at_any_place_and_otherwise_a_last_context(self):
        for function, parameters in [
            (lambda ctx, a: a, ("a",)),
            (lambda a, ctx, b: a, ("a", "b")),
            (lambda context, a: a, ("context", "a")),
            (lambda a, context: a, ("a",)),
        ]:
            self.assertEqual(capstan.functions.shape_of(function).parameters, parameters)

        def plain(ctx: str, a: int, context: str): ...

        self.assertEqual(capstan.functions.shape_of(plain).parameters, ("ctx", "a", "context"))

    def test_a_class_with_its_public_methods(self):
        @Endpoint(name="model", cpu="cpu3c-4-8")
        class Model:
            def embed(self, text):
                return len(text)

            async def rank(self, texts, context):
                return texts

            def _load(self):
                return None

        self.assertEqual(Model().embed("ab"), 2)
        found = Model.__capstan__
        self.assertTrue(found.is_class)
        self.assertEqual(sorted(found.methods), ["embed", "rank"])
        self.assertEqual(found.methods["rank"].parameters, ("texts",))

    def test_defaults_and_a_number_of_workers(self):
        settings = Endpoint(name="a").settings
        self.assertEqual((settings.workers_min, settings.workers_max, settings.idle_timeout, settings.gpu_count), (0, 1, 60, 0))
        self.assertEqual(Endpoint(name="a", workers=5).settings.workers_max, 5)

    def test_every_setting_reaches_the_manifest(self):
        declared = Endpoint(
            name="all",
            description="Everything",
            gpu=[GpuGroup.ADA_24, "NVIDIA L4"],
            gpu_count=2,
            workers=(1, 2),
            idle_timeout=300,
            keep_idle=True,
            min_cuda="12.4",
            min_driver="550.54.15",
            dependencies=["einops==0.8"],
            system_dependencies=["ffmpeg"],
            env={"KEY": "value"},
            volume="models",
            image="registry.example/app:1",
            start_timeout=90,
            execution_timeout_ms=5000,
            scaler_type=ScalerType.REQUEST_COUNT,
            scaler_value=2,
            max_concurrency=8,
        )
        self.assertEqual(
            declared.resource(),
            {
                "description": "Everything",
                "workersMin": 1,
                "workersMax": 2,
                "idleTimeout": 300,
                "keepIdle": True,
                "minCuda": "12.4",
                "minDriver": "550.54.15",
                "public": False,
                "maxConcurrency": 8,
                "startTimeout": 90,
                "executionTimeoutMs": 5000,
                "scalerValue": 2,
                "gpuIds": "ADA_24,NVIDIA L4",
                "gpuCount": 2,
                "imageName": "registry.example/app:1",
                "scalerType": "REQUEST_COUNT",
                "volume": "models",
                "env": {"KEY": "value"},
                "dependencies": ["einops==0.8"],
                "systemDependencies": ["ffmpeg"],
                "functions": [],
            },
        )


class Refusals(unittest.TestCase):
    def test_settings(self):
        for settings, message in (
            ({"name": "-a"}, "name must be"),
            ({"name": None}, "name must be"),
            ({"name": "a", "gpu": "ANY", "cpu": "cpu3c-1-2"}, "gpu and cpu are mutually exclusive"),
            ({"name": "a", "gpu": []}, "gpu must name at least one"),
            ({"name": "a", "gpu": 4090}, "gpu must be the name"),
            ({"name": "a", "cpu": "4 cores"}, "cpu must have the form cpu<gen>-<vCPU>-<RAM GB>"),
            ({"name": "a", "workers": (3, 1)}, r"workers must have a maximum of at least the minimum, not \(3, 1\)"),
            ({"name": "a", "workers": -1}, "workers must be"),
            ({"name": "a", "workers": True}, "workers must be"),
            ({"name": "a", "idle_timeout": 0}, "idle_timeout must be an integer between 1 and 3600 s, not 0"),
            ({"name": "a", "idle_timeout": 3601}, "idle_timeout"),
            ({"name": "a", "gpu": "ANY", "min_cuda": "12"}, "min_cuda must be a version of two numbers, for example 12.4, not \"12\""),
            ({"name": "a", "min_cuda": "12.4"}, "min_cuda requires gpu"),
            ({"name": "a", "cpu": "cpu3c-1-2", "min_driver": "550"}, "min_driver requires gpu"),
            ({"name": "a", "keep_idle": 1}, "keep_idle must be True or False, not 1"),
            ({"name": "a", "execution_timeout_ms": 4999}, "execution_timeout_ms must be 0"),
            ({"name": "a", "execution_timeout_ms": 604800001}, "execution_timeout_ms"),
            ({"name": "a", "gpu_count": 2}, "gpu_count requires gpu"),
            ({"name": "a", "dependencies": "torch"}, "dependencies must be a list of strings"),
            ({"name": "a", "env": {"A-B": "x"}}, "env has the name 'A-B'"),
            ({"name": "a", "scaler_type": "CPU"}, "scaler_type must be QUEUE_DELAY or REQUEST_COUNT"),
            ({"name": "a", "max_concurrency": 0}, "max_concurrency"),
        ):
            with self.subTest(settings), self.assertRaisesRegex(DeclarationError, message):
                Endpoint(**settings)

    def test_a_parameter_that_is_none(self):
        with self.assertRaisesRegex(TypeError, r"unexpected keyword argument 'wrokers' \(did you mean workers\?\)"):
            Endpoint(name="a", wrokers=1)

    def test_no_value_of_env_is_told(self):
        with self.assertRaises(DeclarationError) as caught:
            Endpoint(name="a", env={"KEY": 12345})
        self.assertEqual(str(caught.exception), "endpoint a: env must have a string at KEY, not int")
        self.assertNotIn("secret", repr(Endpoint(name="a", env={"KEY": "secret"}).settings))

    def test_one_function_for_a_queue_based_endpoint(self):
        queue = Endpoint(name="queue")

        @queue
        def first(): ...

        def second(): ...

        with self.assertRaisesRegex(DeclarationError, r"already serves first \(.*test_declaration\.py:\d+\)"):
            queue(second)
        with self.assertRaisesRegex(DeclarationError, "cannot have routes"):
            queue.get("/x")
        for target in (len, 7, lambda: 1):
            with self.assertRaises(DeclarationError):
                Endpoint(name="other")(target)
        with self.assertRaisesRegex(DeclarationError, "no public method"):
            Endpoint(name="other")(type("Empty", (), {}))

    def test_routes(self):
        api = Endpoint(name="api")

        @api.get("/items/{id}")
        def item(id: int):
            return id

        self.assertEqual(item(3), 3)
        self.assertEqual(api.routes, {"GET /items/{id}": "item"})
        self.assertTrue(api.resource()["is_load_balanced"])
        for path, message in (
            ("health", "must start with /"),
            ("/a b", "white space"),
            ("/a{id}", "a path parameter must be a whole segment"),
            ("/{id}/{id}", "twice"),
            (None, "must be a string"),
        ):
            with self.subTest(path), self.assertRaisesRegex(DeclarationError, message):
                api.get(path)

        def other(key): ...

        with self.assertRaisesRegex(DeclarationError, r"GET /items/:key is already bound to item"):
            api.get("/items/:key")(other)
        with self.assertRaisesRegex(DeclarationError, "must have the parameter id"):
            api.post("/items/{id}")(other)
        with self.assertRaisesRegex(DeclarationError, "load-balanced"):
            api(other)
        with self.assertRaisesRegex(DeclarationError, "is a class"):
            api.get("/x")(type("Model", (), {"run": lambda self: 1}))
        api.post("/items")(item)
        self.assertEqual(len(api.resource()["functions"]), 1, "a function that serves two routes is one function")

    def test_an_id_is_a_handle_and_a_name_a_declaration(self):
        self.assertIsInstance(Endpoint("abc"), capstan.EndpointClient)
        self.assertEqual(Endpoint(id="abc").id, "abc")
        self.assertIsInstance(Endpoint(name="vllm", image="registry.example/vllm:1"), capstan.Declaration)
        for settings, message in (
            ({}, "requires an id"),
            ({"id": "abc", "name": "x"}, "mutually exclusive"),
            ({"id": "abc", "gpu": "ANY"}, "gpu must be omitted when an id is given"),
            ({"id": ""}, "id must be a non-empty string"),
        ):
            with self.subTest(settings), self.assertRaisesRegex(DeclarationError, message):
                Endpoint(**settings)
        with self.assertRaisesRegex(DeclarationError, "given twice"):
            Endpoint("abc", id="abc")


class Applications(unittest.TestCase):
    def setUp(self):
        for each in capstan.declarations():
            capstan.forget(each.file)

    def test_declarations_are_recorded(self):
        @Endpoint(name="one")
        def first(): ...

        @Endpoint(name="two")
        def second(): ...

        self.assertEqual([each.name for each in capstan.declarations()], ["one", "two"])
        capstan.check_application(capstan.declarations())

    def test_a_file_that_is_loaded_again_declares_the_same(self):
        for _ in range(2):
            Endpoint(name="again")
        self.assertEqual(len(capstan.declarations()), 1)

    def test_two_functions_of_one_name(self):
        def make(number):
            def same():
                return number

            return same

        def other():
            def same(): ...

            return same

        Endpoint(name="one")(make(1))
        Endpoint(name="two")(other())
        with self.assertRaisesRegex(DeclarationError, r"the function same is defined twice: at .*:\d+ and at .*:\d+"):
            capstan.check_application(capstan.declarations())

    def test_two_endpoints_of_one_name(self):
        Endpoint(name="one")
        Endpoint(name="one")
        with self.assertRaisesRegex(DeclarationError, "the endpoint one is declared twice"):
            capstan.check_application(capstan.declarations())


if __name__ == "__main__":
    unittest.main()
