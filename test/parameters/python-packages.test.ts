/** Parameters and results with the real pydantic, of version 2 and 1, and numpy, installed from the registry. */
import { execFile } from 'node:child_process';
import { rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';

import { withoutSamples } from '../../compiler/signatures/parameters.ts';
import type { FunctionSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { readFunction } from '../cli/read-function.ts';
import { answered, ask } from '../conformance/runtime/http-suite.ts';
import { processRuntime } from '../conformance/runtime/hosts.ts';
import { startWorkerOf } from '../conformance/runtime/worker-under-test.ts';
import { folderOf } from '../support/folder.ts';
import { ownFolder } from '../support/own-folder.ts';

const installed = new Map<string, Promise<string>>();

/** Returns a folder with these packages, installed once for the file. */
async function packages(...names: string[]): Promise<string> {
  const key = names.join(' ');
  const known = installed.get(key) ?? install(names);
  installed.set(key, known);
  return known;
}

async function install(names: readonly string[]): Promise<string> {
  const folder = await ownFolder('capstan-packages');
  await promisify(execFile)('python3', ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--target', folder, ...names]);
  return folder;
}

test.after.always(async () => {
  for (const folder of installed.values()) await folder.then((path) => rm(path, { recursive: true, force: true, maxRetries: 3 }));
});

interface Worker {
  job(input: unknown): Promise<string>;
  route(body: string, query?: string): Promise<string>;
  readonly spec: FunctionSpec;
}

async function worker(t: ExecutionContext, source: string, names: readonly string[]): Promise<Worker> {
  const folder = await folderOf(t, { 'main.py': source });
  const { style, parameters } = await readFunction(folder, 'main.py');
  const spec: FunctionSpec = { name: 'f', module: 'main.py', callStyle: style, parameters: withoutSamples(parameters) };
  await symlink(await packages(...names), join(folder, 'python_packages'));
  const runtime = processRuntime();
  t.teardown(() => runtime.close());
  const jobs = startWorkerOf(runtime, folder, 'f', { functions: [spec] });
  const routes = startWorkerOf(runtime, folder, '', { functions: [spec], servesHttp: true, workerId: 'worker-2' });
  await Promise.all([jobs.hear('loaded'), routes.hear('loaded')]);
  let count = 0;
  return {
    spec,
    job: async (input) => {
      const { result } = await jobs.call(String((count += 1)), input);
      return result.kind === 'returned' ? result.output.toString() : result.kind === 'failed' ? result.error : result.kind;
    },
    route: async (body, query = '') => {
      const { status, body: bytes } = await answered(
        ask(routes, 'f', { method: 'POST', url: `http://host.test/?${query}`, body: Buffer.from(body) }),
      );
      return `${status} ${bytes.toString()}`;
    },
  };
}

const MODELS = `
from __future__ import annotations
import datetime, decimal, uuid
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Dict, List, Literal, Optional, Union
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, HttpUrl, SecretStr, model_validator
from pydantic.alias_generators import to_camel

class Mode(str, Enum):
    FAST = "fast"

@dataclass
class Size:
    width: int

class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9

class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: List[str] = []

class Req(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=False)
    text: str = Field(min_length=2, pattern="^(a+)+$")
    top_k: int = Field(3, gt=0)
    mode: Mode = Mode.FAST
    pet: Annotated[Union[Cat, Dog], Field(discriminator="kind")] = Cat(kind="cat")
    parts: List[Req] = []
    sizes: Dict[str, Size] = {}
    at: Optional[datetime.datetime] = None

    @model_validator(mode="after")
    def check(self):
        if self.text == "aaaa":
            raise ValueError("four are too many")
        return self
`;

test('a model of pydantic is the whole input and the whole body, and comes back by its aliases', async (t) => {
  const run = await worker(t, `${MODELS}\ndef f(req: Req): return req`, ['pydantic', 'numpy']);
  t.true(run.spec.parameters[0]?.takesBody);
  const schema = JSON.parse(run.spec.parameters[0]?.schema ?? '{}') as { $defs: Record<string, { properties: object }> };
  t.deepEqual(Object.keys(schema.$defs).toSorted(), ['Cat', 'Dog', 'Req', 'Size']);
  t.deepEqual(Object.keys(schema.$defs['Req']?.properties ?? {}), ['text', 'topK', 'mode', 'pet', 'parts', 'sizes', 'at']);
  const input = {
    text: 'aa',
    topK: 5,
    pet: { kind: 'dog', tricks: ['sit'] },
    parts: [{ text: 'aaa' }],
    sizes: { s: { width: 1 } },
    at: '2026-01-31T12:00:00Z',
  };
  const expected = {
    ...input,
    mode: 'fast',
    parts: [{ text: 'aaa', topK: 3, mode: 'fast', pet: { kind: 'cat', lives: 9 }, parts: [], sizes: {}, at: null }],
  };
  t.deepEqual(JSON.parse(await run.job(input)), expected);
  t.deepEqual(JSON.parse((await run.route(JSON.stringify(input))).slice('200 '.length)), expected);
  t.is(
    await run.job({ text: 'a', topK: 0, pet: { kind: 'cow' }, parts: [{}], sizes: { s: { width: 'x' } } }),
    [
      'text: String should have at least 2 characters',
      'topK: Input should be greater than 0',
      "pet: Input tag 'cow' found using 'kind' does not match any of the expected tags: 'cat', 'dog'",
      'parts[0].text: Field required',
      'sizes.s.width: Input should be a valid integer, unable to parse string as an integer',
    ].join('; '),
  );
  t.is(await run.job({ text: 'aaaa' }), 'input: Value error, four are too many');
  const refused = await run.route('{"text":"aa","parts":[{}]}');
  t.deepEqual(
    [refused.slice(0, 3), JSON.parse(refused.slice(4))],
    [
      '422',
      {
        error: 'Unprocessable Content',
        detail: 'parts[0].text: Field required',
        errors: [{ path: 'parts[0].text', message: 'Field required' }],
      },
    ],
  );
  // Neither depth nor a pattern that backtracks ends the worker.
  const deep = `{"text":"aa","parts":[`.repeat(300) + `]}`.repeat(300);
  t.regex(await run.route(deep), /^422 .*recursion limit exceeded/);
  t.regex(await run.job({ text: `${'a'.repeat(40_000)}b` }), /^text: String should match pattern/);
});

test('several parameters: rules of Annotated, models beside values, strict models and types of pydantic', async (t) => {
  const source = `${MODELS}
class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    at: datetime.date
def f(n: Annotated[int, Field(gt=3)], many: List[Req] = [], url: Optional[HttpUrl] = None, strict: Optional[Strict] = None, secret: Optional[SecretStr] = None):
    return [n, [each.text for each in many], url, strict, secret]`;
  const run = await worker(t, source, ['pydantic', 'numpy']);
  const input = { n: 4, many: [{ text: 'aa' }], url: 'http://a.test', strict: { at: '2026-01-31' }, secret: 'x' };
  t.is(await run.job(input), '[4,["aa"],"http://a.test/",{"at":"2026-01-31"},"**********"]');
  t.is(await run.job({ n: 3 }), 'n: Input should be greater than 3');
  t.is(await run.job({ n: 4, many: [{ text: 'aa' }, {}] }), 'many[1].text: Field required');
  t.is(await run.job({ n: 4, strict: { at: 5 } }), 'strict.at: Input should be a valid date');
});

test('values of numpy in results and inside models', async (t) => {
  const source = `${MODELS}
class Scores(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    values: np.ndarray
def f(code: str): return eval(code)`;
  const run = await worker(t, source, ['pydantic', 'numpy']);
  for (const [code, expected] of [
    ['np.float32(1.5)', '1.5'],
    ['{"n": np.int64(3), "is": np.bool_(True), np.int64(1): np.str_("x")}', '{"n":3,"is":true,"1":"x"}'],
    ['np.arange(6).reshape(2, 3)', '[[0,1,2],[3,4,5]]'],
    ['[np.datetime64("2026-01-31T12:00:00"), np.timedelta64(90, "s")]', '["2026-01-31T12:00:00","PT1M30S"]'],
    ['Scores(values=np.array([1.5]))', '{"values":[1.5]}'],
    ['{"scores": np.array([1.0, np.nan])}', 'the result is not JSON: result.scores[1]: nan is not a number in JSON'],
    ['{"a": [np.complex64(1)]}', 'the result is not JSON: result.a[0]: a value of the type complex has no JSON form'],
  ] as const)
    t.is(await run.job({ code }), expected, code);
});

test('tables, series, tensors and records of packages have a form, or an error that names the call that makes one', async (t) => {
  // torch is 800 MB: a class of its shape stands in for it, with what the rule reads of a tensor.
  const source = `
import array, datetime, io, json, types
import attrs, numpy as np, pandas as pd, polars as pl
from PIL import Image
class Tensor:
    shape = (2,)
    def tolist(self): return [1.5, 2.5]
@attrs.define
class Point:
    x: int
class Report:
    def __init__(self): self.n = 1
class Model:
    def to_dict(self): return {}
def f(code: str): return eval(code)`;
  const run = await worker(t, source, ['pandas', 'polars', 'attrs', 'pillow', 'numpy']);
  const frame =
    'pd.DataFrame({"name": ["a", None], "n": [1.5, np.nan], "at": [pd.Timestamp("2026-01-31T12:00", tz="UTC"), pd.NaT]}, index=[7, 8])';
  for (const [code, expected] of [
    [frame, '[{"name":"a","n":1.5,"at":"2026-01-31T12:00:00Z"},{"name":null,"n":null,"at":null}]'],
    [`{"rows": ${frame}.head(0)}`, '{"rows":[]}'],
    [`${frame}.set_index("name").n`, '[1.5,null]'],
    [`${frame}.index`, '[7,8]'],
    [`${frame}.to_dict("list")["n"][:1]`, '[1.5]'],
    ['pd.DataFrame({1: [1], "m": pd.array([None], dtype="Int64")})', '[{"1":1,"m":null}]'],
    [
      '[pd.NaT, pd.NA, pd.Timestamp("2026-01-31"), pd.Timedelta("90s"), pd.Period("2026-01")]',
      '[null,null,"2026-01-31T00:00:00","PT1M30S","2026-01"]',
    ],
    ['pd.Series(["a", "b", "a"], dtype="category")', '["a","b","a"]'],
    ['pd.Series([np.array([1, 2]), None])', '[[1,2],null]'],
    ['pl.DataFrame({"a": [1, None], "b": ["x", "y"]})', '[{"a":1,"b":"x"},{"a":null,"b":"y"}]'],
    ['pl.Series([1, 2])', '[1,2]'],
    ['[Tensor(), array.array("d", [0.5])]', '[[1.5,2.5],[0.5]]'],
    [
      'pd.DataFrame([[1, 2]], columns=["a", "a"])',
      'the result is not JSON: result: a DataFrame with two columns of one name has no JSON form; rename one',
    ],
    ['[Point(1)]', 'the result is not JSON: result[0]: a value of the type main.Point has no JSON form; return attrs.asdict(value)'],
    [
      '[Report()]',
      'the result is not JSON: result[0]: a value of the type main.Report has no JSON form; return a dictionary, such as vars(value)',
    ],
    ['{"m": Model()}', 'the result is not JSON: result.m: a value of the type main.Model has no JSON form; return value.to_dict()'],
    ['[iter([1])]', 'the result is not JSON: result[0]: a value of the type list_iterator has no JSON form; return list(value)'],
    [
      '{"picture": Image.new("RGB", (1, 1))}',
      'the result is not JSON: result.picture: a value of the type PIL.Image.Image has no JSON form; return the bytes of a file: image.save(buffer, "PNG"), then buffer.getvalue()',
    ],
  ] as const)
    t.is((await run.job({ code })).replace('capstan_main.', 'main.'), expected, code);
  t.is(
    await run.route(JSON.stringify({ code: frame })),
    '200 [{"name":"a","n":1.5,"at":"2026-01-31T12:00:00Z"},{"name":null,"n":null,"at":null}]',
  );
});

test('models of version 1 of pydantic', async (t) => {
  const source = `
from typing import List, Optional
from pydantic import BaseModel, Field
class Part(BaseModel):
    id: int
class Req(BaseModel):
    text: str = Field(alias="theText", min_length=2)
    parts: List[Part] = []
def f(req: Req): return [req, req.parts]`;
  const run = await worker(t, source, ['pydantic<2']);
  t.is(await run.job({ theText: 'xy', parts: [{ id: '5' }] }), '[{"theText":"xy","parts":[{"id":5}]},[{"id":5}]]');
  t.is(await run.job({ parts: [{ id: 'x' }] }), 'theText: field required; parts[0].id: value is not a valid integer');
});
