/**
 * Values of functions in Python: what a declared type makes of JSON, and what JSON is made of a result. The packages
 * pydantic and numpy are in test/parameters.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { folderOf } from '../../support/folder.ts';
import { jobsOf, routesOf, type Asking, type Run } from './functions-under-test.ts';
import { processRuntime } from './hosts.ts';
import { startWorkerOf } from './worker-under-test.ts';

const root = join(import.meta.dirname, '../../..');

for (const file of ['json_values.py', 'model_types.py']) {
  test(`the bootstrap and the SDK have the same ${file}`, async (t) => {
    const [bootstrap, sdk] = await Promise.all([
      readFile(join(root, 'agent/runtimes/process/python/capstan_bootstrap', file), 'utf8'),
      readFile(join(root, 'sdk/python/capstan', file), 'utf8'),
    ]);
    t.is(bootstrap, sdk);
  });
}

const TYPES = `
import datetime, decimal, enum, pathlib, uuid
from dataclasses import InitVar, dataclass, field
from typing import Any, Dict, FrozenSet, List, Literal, Mapping, NewType, Optional, Set, Tuple, TypedDict, Union

class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"

class Level(enum.IntEnum):
    LOW = 1

Name = NewType("Name", str)

@dataclass
class Item:
    name: str
    price: float = 1.5
    tags: List[str] = field(default_factory=list)
    parts: "List[Item]" = field(default_factory=list)
    scale: InitVar[int] = 1
    def __post_init__(self, scale):
        if self.price < 0:
            raise ValueError("the price must not be negative")
        self.price = self.price * scale

@dataclass
class Left:
    kind: Literal["left"]
    inner: "Optional[Union[Left, Right]]" = None

@dataclass
class Right:
    kind: Literal["right"]
    inner: "Optional[Union[Left, Right]]" = None

class Row(TypedDict, total=False):
    id: int

def shown(value):
    return value if value is None or isinstance(value, (str, int, float)) and not isinstance(value, enum.Enum) else repr(value)
`;

/** Runs jobs of the source's function `f`. */
const worker = (t: ExecutionContext, source: string): Promise<Run> => jobsOf(t, processRuntime(), { 'main.py': source });

const DATE_TIME = 'a: must be an ISO 8601 date and time, such as 2026-01-31T12:00:00Z';
const types: readonly [type: string, ...cases: (readonly [value: string, expected: string])[]][] = [
  [
    'datetime.datetime',
    ['"2026-01-31T12:00:00Z"', 'datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.timezone.utc)'],
    ['5', DATE_TIME],
    ['"x"', DATE_TIME],
  ],
  ['datetime.date', ['"2026-01-31"', 'datetime.date(2026, 1, 31)'], ['"2026"', 'a: must be an ISO 8601 date, such as 2026-01-31']],
  ['datetime.time', ['"12:30:00"', 'datetime.time(12, 30)']],
  [
    'datetime.timedelta',
    ['"-P1DT1H"', 'datetime.timedelta(days=-2, seconds=82800)'],
    ['1.5', 'datetime.timedelta(seconds=1, microseconds=500000)'],
    ['"P"', 'a: must be a number of seconds or an ISO 8601 duration, such as PT1H30M'],
  ],
  [
    'decimal.Decimal',
    ['"1.10"', "Decimal('1.10')"],
    ['1.1', "Decimal('1.1')"],
    ['"NaN"', 'a: must be a number or a string that contains one'],
    ['true', 'a: must be a number or a string that contains one'],
  ],
  ['uuid.UUID', ['"00000000-0000-0000-0000-000000000005"', "UUID('00000000-0000-0000-0000-000000000005')"], ['5', 'a: must be a UUID']],
  ['pathlib.Path', ['"a/b"', "PosixPath('a/b')"], ['"a\\u0000"', 'a: must be a string with a path']],
  ['bytes', ['"AP8="', "b'\\x00\\xff'"], ['"A"', 'a: must be a base64 string'], ['"!!!!"', 'a: must be a base64 string']],
  ['Mode', ['"fast"', "<Mode.FAST: 'fast'>"], ['"other"', 'a: must be one of "fast", "slow"'], ['{}', 'a: must be one of "fast", "slow"']],
  ['Level', ['1', '<Level.LOW: 1>'], ['1.0', '<Level.LOW: 1>'], ['true', 'a: must be one of 1']],
  ['Literal["x", 1]', ['"x"', 'x'], ['1', '1'], ['true', 'a: must be one of "x", 1']],
  ['Name', ['"x"', 'x'], ['1', 'a: must be a string']],
  ['Optional[int]', ['null', 'null'], ['1', '1'], ['"1"', 'a: must be an integer']],
  ['Union[int, List[int]]', ['[1]', '[1]'], ['"x"', 'a: must fit one of int, List[int]']],
  ['Union[int, Any]', ['"x"', 'x']],
  ['List[int]', ['[1, 2.0]', '[1, 2]'], ['[1, "x"]', 'a[1]: must be an integer'], ['{}', 'a: must be an array']],
  ['Set[int]', ['[1, 1]', '{1}'], ['[[1]]', 'a[0]: must be an integer']],
  ['FrozenSet[Any]', ['[1]', 'frozenset({1})'], ['[[1]]', 'a: must be an array without arrays and objects']],
  ['Tuple[int, str]', ['[1, "a"]', "(1, 'a')"], ['[1]', 'a: must be an array of length 2']],
  ['Tuple[int, ...]', ['[1, 2]', '(1, 2)'], ['[1, "a"]', 'a[1]: must be an integer']],
  [
    'Dict[int, Mode]',
    ['{"1": "fast"}', "{1: <Mode.FAST: 'fast'>}"],
    ['{"x": "no"}', 'a.x: must be an integer; a.x: must be one of "fast", "slow"'],
  ],
  ['Mapping[str, int]', ['{"__proto__": 1}', "{'__proto__': 1}"], ['[]', 'a: must be an object']],
  [
    'List[Item]',
    ['[{"name": "x", "scale": 2}]', "[Item(name='x', price=3.0, tags=[], parts=[])]"],
    ['[{"name": "x", "parts": [{"nam": 1}]}]', 'a[0].parts[0].name: is required; a[0].parts[0].nam: is not a field of Item'],
    ['[{"name": "x", "price": -1}]', 'a[0]: the price must not be negative'],
  ],
  [
    'List[Row]',
    ['[{"id": 1}, {}]', "[{'id': 1}, {}]"],
    ['[{"id": "x", "no": 1}]', 'a[0].id: must be an integer; a[0].no: is not a field of Row'],
  ],
  ['"datetime.date"', ['"2026-01-31"', 'datetime.date(2026, 1, 31)']],
  ['"NoSuchName"', ['{"x": 1}', "{'x': 1}"]],
];
for (const [type, ...cases] of types) {
  test(`a parameter of the type ${type}`, async (t) => {
    const run = await worker(t, `${TYPES}\ndef f(a: ${type}, b: int = 1):\n    return shown(a)`);
    for (const [value, expected] of cases) {
      const result = await run(`{"a":${value}}`);
      t.is(result.startsWith('"') ? (JSON.parse(result) as string) : result, expected, value);
    }
  });
}

test('the only parameter of a job takes the whole input if it is a model; several take keys', async (t) => {
  const one = await worker(t, `${TYPES}\ndef f(item: Item, ctx): return [item.name, ctx.attempt]`);
  t.is(await one('{"name":"x"}'), '["x",1]');
  t.is(await one('{"item":{"name":"x"}}'), 'name: is required; item: is not a field of Item');
  t.is(await one('{"name":"x","price":-1}'), 'input: the price must not be negative');
  const named = await worker(t, `${TYPES}\ndef f(*, input: Row): return input`);
  t.is(await named('{"id":1}'), '{"id":1}');
  t.is(await named('{"id":"x"}'), 'id: must be an integer');
  const optional = await worker(t, `${TYPES}\ndef f(context: Optional[Item] = None): return context`);
  t.is(await optional('{}'), 'null');
  t.is(await optional('{"name":"x"}'), '{"name":"x","price":1.5,"tags":[],"parts":[]}');
  const several = await worker(t, `${TYPES}\ndef f(item: Item, times: int = 1): return [item.name] * times`);
  t.is(await several('{"item":{"name":"x"},"times":2}'), '["x","x"]');
  t.is(await several('{"item":{},"times":2}'), 'item.name: is required');
  t.is(await several('{"name":"x"}'), 'unknown argument: name (the function takes: item, times)');
});

test('methods of a class validate, each by its own types', async (t) => {
  const run = await worker(
    t,
    `${TYPES}\nclass f:\n    def add(self, item: Item): return item.name\n    def set(self, mode: Mode): return mode`,
  );
  t.is(await run('{"method":"add","name":"x"}'), '"x"');
  t.is(await run('{"method":"add","nam":"x"}'), 'name: is required; nam: is not a field of Item');
  t.is(await run('{"method":"set","mode":"fast"}'), '"fast"');
});

test('integers keep their digits, and numbers that no value stands for are refused', async (t) => {
  const source = `from dataclasses import dataclass\nfrom typing import List\n@dataclass\nclass M:\n    id: int\ndef f(a: int, b=None, m: List[M] = None): return [a, b, m]`;
  const run = await worker(t, source);
  const call = await routesOf(t, processRuntime(), { 'main.py': source }, ['f']);
  for (const [input, expected] of [
    ['{"a":1970670598291982291}', '[1970670598291982291,null,null]'],
    ['{"a":-9223372036854775808,"b":[18446744073709551615]}', '[-9223372036854775808,[18446744073709551615],null]'],
    ['{"a":1,"m":[{"id":1970670598291982291}]}', '[1,null,[{"id":1970670598291982291}]]'],
    ['{"a":1e15}', '[1000000000000000,null,null]'],
  ] as const) {
    t.is(await run(input), expected);
    t.is((await call('f', { body: input })).text, expected);
  }
  for (const [input, rule] of [
    ['{"a":1e23}', 'a: must be an integer'],
    ['{"a":1,"m":[{"id":1e23}]}', 'm[0].id: must be an integer'],
    ['{"a":1,"b":1e400}', 'input: the number 1e400 is beyond the range of a float'],
    [`{"a":${'9'.repeat(5_000)}}`, 'input: an integer has too many digits'],
  ] as const) {
    t.is(await run(input), rule);
    t.is((await call('f', { body: input })).detail, rule.replace('input: ', 'body: '));
  }
  t.is((await call('f', { query: 'a=1970670598291982291' })).text, '[1970670598291982291,null,null]');
  t.is((await call('f', { query: 'a=1e23' })).detail, 'a: must be an integer');
});

test('what is nested deeply, and unions of unions, end soon with a message', async (t) => {
  const run = await worker(t, `${TYPES}\ndef f(a: Left): return 1`);
  const nested = (depth: number, last: string): string =>
    depth === 0 ? `{"kind":"${last}"}` : `{"inner":${nested(depth - 1, last)},"kind":"${depth % 2 === 0 ? 'right' : 'left'}"}`;
  t.is(await run(nested(41, 'right')), '1');
  t.is(await run(nested(41, 'wrong')), 'inner: must fit one of Left, Right or be null');
  const item = await worker(t, `${TYPES}\ndef f(a: Item): return 1`);
  t.is(await item(`${'{"name":"x","parts":['.repeat(900)}${']}'.repeat(900)}`), 'input: is nested too deeply');
});

test('many values that do not fit are not all named', async (t) => {
  const run = await worker(t, 'from typing import List\ndef f(a: List[int]): return a');
  const error = await run(JSON.stringify({ a: Array.from({ length: 100_000 }, () => 'x') }));
  t.true(error.startsWith('a[0]: must be an integer; a[1]: must be an integer; '));
  t.true(error.endsWith('a[9]: must be an integer; and more'));
});

const results: readonly (readonly [expression: string, expected: string])[] = [
  ['datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.timezone.utc)', '"2026-01-31T12:00:00Z"'],
  ['datetime.datetime(2026, 1, 31, 12, 0, 0, 5)', '"2026-01-31T12:00:00.000005"'],
  ['datetime.date(2026, 1, 31)', '"2026-01-31"'],
  ['datetime.time(12, 30)', '"12:30:00"'],
  ['datetime.timedelta(days=1, hours=2, seconds=3.5)', '"P1DT2H3.5S"'],
  ['-datetime.timedelta(minutes=90)', '"-PT1H30M"'],
  ['datetime.timedelta(0)', '"PT0S"'],
  ['decimal.Decimal("1.10")', '"1.10"'],
  ['uuid.UUID(int=5)', '"00000000-0000-0000-0000-000000000005"'],
  ['pathlib.Path("a") / "b"', '"a/b"'],
  ['[Mode.FAST, Level.LOW]', '["fast",1]'],
  ['[{1}, frozenset(), {"k": 2}.values()]', '[[1],[],[2]]'],
  ['[b"\\x00\\xff", bytearray(b"x"), memoryview(b"x")]', '["AP8=","eA==","eA=="]'],
  ['Item("x", parts=[Item("y")])', '{"name":"x","price":1.5,"tags":[],"parts":[{"name":"y","price":1.5,"tags":[],"parts":[]}]}'],
  [
    '{Mode.FAST: 1, uuid.UUID(int=5): 2, datetime.date(2026, 1, 31): 3, 4: 5, None: 6}',
    '{"fast":1,"00000000-0000-0000-0000-000000000005":2,"2026-01-31":3,"4":5,"null":6}',
  ],
  ['{"a": [{"b": float("nan")}]}', 'the result is not JSON: result.a[0].b: nan is not a number in JSON'],
  ['{"a": [1, object()]}', 'the result is not JSON: result.a[1]: a value of the type object has no JSON form'],
  ['{"a": {Item: 1}}', 'the result is not JSON: result.a: a key of the type type has no JSON form'],
  ['(lambda a: a.append({"a": a}) or a)([])', 'the result is not JSON: result[0].a: it contains itself'],
  [
    '(lambda a: a.append(__import__("functools").reduce(lambda b, _: (b,), range(60), a)) or a)([])',
    `the result is not JSON: result${'[0]'.repeat(61)}: it contains itself`,
  ],
  ['__import__("functools").reduce(lambda a, _: [a], range(100000), [])', 'the result is not JSON: result: it is nested too deeply'],
  ['[complex(1)]', 'the result is not JSON: result[0]: a value of the type complex has no JSON form'],
];
test('results become JSON by the table, in jobs and in routes', async (t) => {
  const source = `${TYPES}\ndef f(code: str): return eval(code)`;
  const run = await worker(t, source);
  for (const [code, expected] of results) t.is(await run(JSON.stringify({ code })), expected, code);
  const call = await routesOf(t, processRuntime(), { 'main.py': source }, ['f']);
  for (const [code, expected] of results) {
    const { status, text, detail } = await call('f', { body: JSON.stringify({ code }) });
    if (expected.startsWith('the result is not JSON')) t.deepEqual([status, detail], [500, expected], code);
    else t.deepEqual([status, text], [200, expected], code);
  }
});

test('chunks and progress become JSON by the same table', async (t) => {
  const folder = await folderOf(t, {
    'main.py':
      'import datetime\ndef f(bad: bool, ctx):\n    ctx.progress({"at": datetime.date(2026, 1, 31)})\n    yield {"set": {1}}\n    yield [object()] if bad else b"x"',
  });
  const runtime = processRuntime();
  t.teardown(() => runtime.close());
  const made = startWorkerOf(runtime, folder, 'f', {
    functions: [{ name: 'f', module: 'main.py', parameters: [], callStyle: 'CALL_STYLE_UNSPECIFIED' }],
  });
  await made.hear('loaded');
  const { result } = await made.call('1', { bad: false });
  t.deepEqual(result, { ...result, kind: 'returned' });
  t.is(result.kind === 'returned' ? result.output.toString() : '', '[{"set":[1]},"eA=="]');
  t.deepEqual((await made.hear('progress')).value, { at: '2026-01-31' });
  const failed = (await made.call('2', { bad: true })).result;
  t.is(failed.kind === 'failed' ? failed.error : '', 'the chunk is not JSON: chunk[0]: a value of the type object has no JSON form');
});

test('a route takes the body into its only model, and the rest from path and query', async (t) => {
  const source = `${TYPES}
def add(item: Item, dry: bool = False): return [item.name, dry]
def put(id: int, request: Item, tags: Set[int] = frozenset()): return [id, request.name, tags]
def two(a: Item, b: Item, n: int = 0): return [a.name, b.name, n]
def late(item: Item = None): return item
def typed(day: datetime.date, mode: Mode = Mode.FAST, ids: List[int] = (), n: Optional[int] = None): return [day, mode, ids, n]
`;
  const call = await routesOf(t, processRuntime(), { 'main.py': source }, ['add', 'put', 'two', 'late', 'typed']);
  const text = async (name: string, request: Asking): Promise<string> => {
    const answer = await call(name, request);
    return `${answer.status} ${answer.detail ?? answer.text}`;
  };
  t.is(await text('add', { body: '{"name":"x"}', query: 'dry=true' }), '200 ["x",true]');
  t.is(await text('add', {}), '400 body: is required');
  t.is(await text('add', { body: '[]' }), '422 body: must be an object');
  t.is(
    await text('add', { body: '{"name":"x","parts":[{"name":1},{}]}' }),
    '422 parts[0].name: must be a string; parts[1].name: is required',
  );
  t.deepEqual(JSON.parse((await call('add', { body: '{"parts":[{"name":1}]}' })).text), {
    error: 'Unprocessable Content',
    detail: 'name: is required; parts[0].name: must be a string',
    errors: [
      { path: 'name', message: 'is required' },
      { path: 'parts[0].name', message: 'must be a string' },
    ],
  });
  t.is(await text('put', { pathValues: { id: '7' }, body: '{"name":"x"}', query: 'tags=1&tags=1' }), '200 [7,"x",[1]]');
  t.is(await text('two', { body: '{"a":{"name":"x"},"b":{"name":"y"},"n":2}' }), '200 ["x","y",2]');
  t.is(await text('two', { body: '{"a":{"name":"x"},"b":{}}' }), '422 b.name: is required');
  t.is(await text('late', {}), '200 null');
  t.is(await text('late', { body: '{}' }), '200 null');
  t.is(await text('typed', { query: 'day=2026-01-31&mode=slow&ids=1&ids=2&n=5' }), '200 ["2026-01-31","slow",[1,2],5]');
  t.is(await text('typed', { query: 'day=x&n=y' }), '422 day: must be an ISO 8601 date, such as 2026-01-31');
  t.is(await text('typed', { query: 'day=2026-01-31&ids=x' }), '422 ids[0]: must be an integer');
  t.is(await text('add', { body: '{"name":"x","price":NaN}' }), '400 body: must be JSON');
  t.is(await text('add', { body: '['.repeat(200_000) }), '400 body: is nested too deeply');
});
