"""Dataclasses and other typed values as arguments of calls, and the parameter that is a whole input or body."""
import dataclasses
import datetime
from typing import Any, Dict, List, Optional

import capstan
from capstan import dispatch, functions, remote

from .test_remote import GPU, Worker, done


@dataclasses.dataclass
class Item:
    name: str
    at: datetime.date = datetime.date(2026, 1, 31)


PLAIN = {"name": "x", "at": "2026-01-31"}


class Models(Worker):
    def test_a_client_sends_a_model_and_models_inside(self):
        with self.service(*[{"id": "j", "status": "IN_QUEUE"}] * 2) as service:
            endpoint = capstan.Endpoint("ep1", api_key="k", base_url=service.url)
            endpoint.run(Item("x"))
            endpoint.run({"items": [Item("x")], "ids": {1}})
            self.assertEqual([each.body["input"] for each in service.requests], [PLAIN, {"items": [PLAIN], "ids": [1]}])

    def test_an_argument_without_a_form_names_its_place(self):
        with self.service() as service:
            endpoint = capstan.Endpoint("ep1", api_key="k", base_url=service.url)
            with self.assertRaisesRegex(TypeError, r"^the input is not JSON: input\.a\[0\]: a value of the type object has no JSON form$"):
                endpoint.run({"a": [object()]})
            with self.assertRaisesRegex(ValueError, r"^the input is not JSON: input\.a: nan is not a number in JSON$"):
                endpoint.run({"a": float("nan")})

    def test_the_parameter_of_a_whole_input_or_body(self):
        def only(item: Item, ctx: Any): ...
        def optional(item: Optional[Item] = None): ...
        def several(item: Item, n: int): ...
        def beside(item: Item, n: int, tags: List[str] = ()): ...
        def two(item: Item, more: Dict[str, int]): ...
        def any_keys(item: Item, **more: Any): ...

        self.assertEqual(functions.shape_of(only).body, "item")
        self.assertEqual(functions.shape_of(optional).body, "item")
        for each in (several, two, any_keys):
            self.assertIsNone(functions.shape_of(each).body)
        self.assertEqual(functions.shape_of(beside, True).body, "item")
        self.assertIsNone(functions.shape_of(two, True).body)

    def test_a_stub_sends_a_model_as_the_input(self):
        with self.service(GPU, done(1), done(2), done(3)) as service:
            embed = remote.stub("embed", parameters=("item",), body="item")
            embed(Item("x"))
            embed(item={"name": "y"})
            embed()
            self.assertEqual([each.body["input"] for each in service.requests[1:]], [PLAIN, {"name": "y"}, {}])
            with self.assertRaisesRegex(TypeError, "the argument item must be a model or a dict"):
                embed(5)

    def test_a_method_takes_a_model_beside_its_name(self):
        with self.service(GPU, done(1)) as service:
            remote.stub_class("Model", {"add": {"parameters": ("item",), "body": "item"}}, endpoint="gpu")().add(Item("x"))
            self.assertEqual(service.requests[1].body["input"], {"method": "add", **PLAIN})

    def test_a_route_gets_the_model_as_its_body_and_the_rest_in_path_and_query(self):
        path, body = dispatch.request_of("POST", "/items/{id}", {"id": 7, "item": Item("x"), "tags": ["a", "b"], "day": datetime.date(2026, 1, 31), "no": None}, "item")
        self.assertEqual((path, body), ("/items/7?tags=a&tags=b&day=2026-01-31", Item("x")))
