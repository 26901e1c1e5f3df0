"""Every snippet of the documentation runs as printed."""
import ast
import asyncio
import contextlib
import inspect
import io
import pathlib
import re
import unittest
from unittest import mock

import capstan
from capstan import http_sync

from .fake_service import FakeService

ROOT = pathlib.Path(__file__).parents[3]
#: A response from which any call of a job or an endpoint can read.
ANSWER = {"id": "j", "status": "COMPLETED", "output": [1], "stream": [{"output": 1}], "jobs": {}, "workers": {}, "removed": 0}


def snippets():
    for page in ("docs/sdk-python.md", "docs/sdk-python-calls.md", "sdk/python/README.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for found in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            yield "%s:%d" % (page, text.count("\n", 0, found.start()) + 2), found.group(1)


class Docs(unittest.TestCase):
    def test_every_snippet_runs(self):
        self.addCleanup(http_sync.close)
        # The snippets set them.
        for name in ("api_key", "base_url"):
            self.addCleanup(setattr, capstan, name, getattr(capstan, name))
        run = 0
        for place, source in snippets():
            run += 1
            with self.subTest(place), FakeService(*[ANSWER] * 200) as service, contextlib.redirect_stdout(io.StringIO()):
                code = source.replace("https://capstan.example", service.url).replace("cap_…", "key")
                compiled = compile(code, place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                with mock.patch.dict("os.environ", {"CAPSTAN_URL": service.url, "SERVICE_API_KEY": "key"}):
                    capstan.base_url = None
                    value = eval(compiled, {"__name__": "snippet"})
                    if inspect.iscoroutine(value):
                        asyncio.run(value)
        self.assertGreaterEqual(run, 6)
