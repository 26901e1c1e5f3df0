/** JSON Schemas that the tool reads from Python sources without running them. */
import test, { type ExecutionContext } from 'ava';

import { pythonHandler } from '../../compiler/build/handlers-python.ts';
import type { ReadFunction } from '../../compiler/application/functions.ts';
import { withinLimit } from '../../compiler/signatures/parameters.ts';
import { discover } from '../../compiler/discovery/discover.ts';
import { MAX_SCHEMA_LENGTH, MAX_SCHEMAS_LENGTH } from '../../lib/parameter-schemas.ts';
import { CallStyle, type FunctionSpec, type ParameterSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { folderOf } from '../support/folder.ts';
import { inShort, readFunction } from './read-function.ts';

const IMPORTS = `
import datetime, decimal, uuid
from dataclasses import dataclass, field
from datetime import date
from enum import Enum, auto
from typing import Annotated, Any, Dict, List, Literal, Optional, Set, Tuple, TypedDict, Union
from pydantic import BaseModel, ConfigDict, Field
`;

async function read(t: ExecutionContext, source: string, more: Record<string, string> = {}): Promise<ReadFunction> {
  return readFunction(await folderOf(t, { 'main.py': `${IMPORTS}${source}`, ...more }), 'main.py');
}

const schemaOf = ({ parameters }: ReadFunction, at = 0): unknown => {
  const schema = parameters[at]?.schema;
  return schema === undefined ? undefined : JSON.parse(schema);
};

const annotations: readonly (readonly [annotation: string, schema: unknown])[] = [
  ['int', undefined],
  ['Any', undefined],
  ['Unknown', undefined],
  ['List[int]', { type: 'array', items: { type: 'integer' } }],
  ['"list[str | None]"', { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'null' }] } }],
  ['Optional[datetime.datetime]', { anyOf: [{ type: 'string', format: 'date-time' }, { type: 'null' }] }],
  [
    'Union[date, Optional[uuid.UUID]]',
    { anyOf: [{ type: 'string', format: 'date' }, { type: 'string', format: 'uuid' }, { type: 'null' }] },
  ],
  ['Union[int, Unknown]', undefined],
  ['Dict[str, Set[float]]', { type: 'object', additionalProperties: { type: 'array', uniqueItems: true, items: { type: 'number' } } }],
  ['Tuple[int, str]', { type: 'array', prefixItems: [{ type: 'integer' }, { type: 'string' }], minItems: 2, maxItems: 2 }],
  ['Tuple[int, ...]', { type: 'array', items: { type: 'integer' } }],
  ['Literal["a", -1, None]', { enum: ['a', -1, null] }],
  [
    'Annotated[int, Field(gt=0, le=10, description="how many")]',
    { type: 'integer', exclusiveMinimum: 0, maximum: 10, description: 'how many' },
  ],
  ['bytes', { type: 'string', contentEncoding: 'base64' }],
];
test('annotations of the standard library and rules of pydantic', async (t) => {
  for (const [annotation, schema] of annotations)
    t.deepEqual(schemaOf(await read(t, `def f(a: ${annotation}, b=1): pass`)), schema, annotation);
});

test('classes of the application become definitions, also recursive ones and those of other files', async (t) => {
  const source = `
from models.item import Item as Thing
class Mode(str, Enum):
    FAST = "fast"
    SLOW = "slow"
class Base(BaseModel):
    """What all have.

    More."""
    model_config = ConfigDict(extra="forbid")
    name: str = Field(alias="theName", min_length=2)
class Req(Base):
    mode: Mode = Mode.FAST
    top: int = 3
    parts: "List[Req]" = Field(default_factory=list, max_length=5)
    thing: Optional[Thing] = None
    _private: int = 1
def f(req: Req): pass
`;
  const item =
    'from dataclasses import dataclass, field\n@dataclass\nclass Item:\n    id: int\n    skipped: int = field(init=False)\n    tags: list = field(default_factory=list)\n';
  const found = await read(t, source, { 'models/item.py': item, 'models/__init__.py': '' });
  t.like(found.parameters[0], { name: 'req', type: 'object', takesBody: true, sample: { theName: 'text' } });
  t.deepEqual(schemaOf(found), {
    $ref: '#/$defs/Req',
    $defs: {
      Req: {
        title: 'Req',
        type: 'object',
        properties: {
          theName: { type: 'string', minLength: 2 },
          mode: { title: 'Mode', enum: ['fast', 'slow'] },
          top: { type: 'integer', default: 3 },
          parts: { type: 'array', items: { $ref: '#/$defs/Req' }, maxItems: 5 },
          thing: { anyOf: [{ $ref: '#/$defs/Item' }, { type: 'null' }], default: null },
        },
        required: ['theName'],
        additionalProperties: false,
      },
      Item: {
        title: 'Item',
        type: 'object',
        properties: { id: { type: 'integer' }, tags: { type: 'array' } },
        required: ['id'],
        additionalProperties: false,
      },
    },
  });
});

const bodies: readonly (readonly [parameters: string, short: string, body: string | undefined])[] = [
  ['req: Req', 'POSITIONAL req', 'req'],
  ['req: Optional[Req] = None, ctx=None', 'POSITIONAL req?', 'req'],
  ['context: Req', 'POSITIONAL context', 'context'],
  ['req: Req, n: int = 1', 'POSITIONAL req n?', undefined],
  ['input: Req', 'POSITIONAL input', 'input'],
  ['req: Req, **more', 'WHOLE', undefined],
  ['req: List[Req]', 'POSITIONAL req', undefined],
  ['req: SomePackages', 'UNSPECIFIED', undefined],
];
test('which parameter takes the whole input', async (t) => {
  for (const [parameters, short, body] of bodies) {
    const found = await read(t, `from somewhere import SomePackages\nclass Req(TypedDict):\n    a: int\ndef f(${parameters}): pass`);
    t.is(inShort(found), short, parameters);
    t.is(found.parameters.find(({ takesBody }) => takesBody === true)?.name, body, parameters);
  }
});

test('nothing that is hostile or huge stops the reading', async (t) => {
  const many = Array.from({ length: 3_000 }, (_, index) => `    field_number_${index}: str`).join('\n');
  const huge = await read(t, `class Req(BaseModel):\n${many}\ndef f(req: Req): pass`);
  t.is(huge.parameters[0]?.schema, undefined);
  t.true(huge.parameters[0]?.takesBody);
  const circle = await read(t, 'from main import A as B\nfrom main import B as A\nX = Y\nY = X\ndef f(a: A, b: X): pass');
  t.is(inShort(circle), 'POSITIONAL a b');
  const chain = Array.from({ length: 300 }, (_, index) => `class C${index}(BaseModel):\n    next: "C${index + 1}"`).join('\n');
  t.is(inShort(await read(t, `${chain}\ndef f(a: C0): pass`)), 'POSITIONAL a');
  const escape = await read(t, 'from ....etc.passwd import Req\ndef f(a: List[Req]): pass');
  t.is(inShort(escape), 'POSITIONAL a');
});

test('a stub sends a model as the input or the body', async (t) => {
  const folder = await folderOf(t, {
    'a.py': `${IMPORTS}from capstan import Endpoint\n@dataclass\nclass Req:\n    text: str\n@Endpoint(name="a")\ndef read_it(req: Req): pass\napi = Endpoint(name="api")\n@api.put("/items/{id}")\ndef put(id: int, req: Req, dry: bool = False): pass`,
    'b.py': 'from capstan import Endpoint\n@Endpoint(name="b")\ndef call():\n    from a import read_it, put',
  });
  const { endpoints } = await discover(folder, () => undefined);
  const caller = endpoints.find(({ name }) => name === 'b');
  const stub = caller === undefined ? undefined : pythonHandler(caller, endpoints, []).find(({ path }) => path.endsWith('stubs/a.py'));
  t.regex(String(stub?.content), /^read_it = remote\.stub\("read_it", parameters=\["req"\], body="req", endpoint="a"\)$/m);
  t.regex(String(stub?.content), /^put = remote\.stub\("put", parameters=\["id", "req", "dry"\], body="req", endpoint="api"\)$/m);
});

const asFunction = (parameters: ParameterSpec[]): FunctionSpec => ({
  name: 'f',
  module: 'm.ts',
  callStyle: CallStyle.POSITIONAL,
  parameters,
});
const asClass = (parameters: ParameterSpec[]): FunctionSpec => ({
  ...asFunction([]),
  classSpec: { methods: [{ name: 'm', callStyle: CallStyle.POSITIONAL, parameters }] },
});

test('schemas beyond the limit of an endpoint are left out, and their types stay', (t) => {
  const parameter = (name: string, length: number) => ({ name, required: true, type: 'object', schema: 'x'.repeat(length) });
  const parameters = [parameter('a', MAX_SCHEMA_LENGTH), parameter('b', MAX_SCHEMA_LENGTH + 1), parameter('c', 10)];
  const many = withinLimit(Array.from({ length: 5 }, (_, index) => (index % 2 === 0 ? asFunction(parameters) : asClass(parameters))));
  const all = many.flatMap((fn) => [fn, ...(fn.classSpec?.methods ?? [])]);
  const kept = all.flatMap(({ parameters: each }) => each.map(({ schema }) => schema?.length ?? 0));
  t.deepEqual(kept.slice(0, 3), [MAX_SCHEMA_LENGTH, 0, 10]);
  t.true(kept.reduce((sum, length) => sum + length, 0) <= MAX_SCHEMAS_LENGTH);
  t.true(all.every(({ parameters: each }) => each.every(({ type }) => type === 'object')));
});
