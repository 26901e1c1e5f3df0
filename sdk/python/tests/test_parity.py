"""
The rules of settings, shared by both SDKs: one list of cases, which test/sdk/parity.test.ts applies to TypeScript.
"""
import json
import pathlib
import unittest

from capstan import DeclarationError, Endpoint
from capstan.dot_env import parse_dot_env

SHARED = pathlib.Path(__file__).parents[3] / "test/sdk"
CASES = SHARED / "declarations.json"


class Parity(unittest.TestCase):
    def test_every_case(self):
        cases = json.loads(CASES.read_text(encoding="utf-8"))
        self.assertGreater(len(cases), 50)
        for case in cases:
            with self.subTest(case["settings"]):
                if "resource" in case:
                    resource = Endpoint(**case["settings"]).resource()
                    self.assertEqual({key: resource[key] for key in case["resource"]}, case["resource"])
                    continue
                with self.assertRaisesRegex(DeclarationError, r"\b%s .*%s" % (case["parameter"], case["rule"])):
                    Endpoint(**case["settings"])

    def test_every_dot_env(self):
        for text, expected in json.loads((SHARED / "dot-env.json").read_text(encoding="utf-8")):
            with self.subTest(text):
                self.assertEqual(parse_dot_env(text, "SERVICE_API_KEY"), expected)
