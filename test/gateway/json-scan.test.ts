/** The scanner accepts what JSON.parse accepts and cuts out the value JSON.parse would give. */
import { fc, testProp } from '@fast-check/ava';
import test from 'ava';

import { scanObject } from '../../lib/json-scan.ts';

const wanted = new Set(['input', 'policy']);

function parses(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function agrees(text: string): boolean {
  const bytes = Buffer.from(text);
  const scan = scanObject(bytes, wanted);
  const value = parses(text);
  if (value === undefined) return !scan.ok && scan.why === 'syntax';
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return !scan.ok && scan.why === 'shape';
  if (!scan.ok) return false;
  for (const name of wanted) {
    const span = scan.members.get(name);
    const there = Object.hasOwn(value, name);
    if ((span !== undefined) !== there) return false;
    if (span === undefined) continue;
    const cut = bytes.subarray(span.start, span.end).toString();
    if (cut.trim() !== cut || JSON.stringify(parses(cut)) !== JSON.stringify((value as Record<string, unknown>)[name])) return false;
  }
  return true;
}

test('texts at the edges of the grammar', (t) => {
  for (const text of [
    '',
    ' ',
    '{',
    '}',
    '{}',
    ' { } ',
    '{"input":}',
    '{"input":1,}',
    '{,}',
    '{"a":1 "b":2}',
    '[1,]',
    '[',
    ']',
    '"',
    '"\\',
    '"\\u12',
    '"\\x"',
    '01',
    '-',
    '-0',
    '1.',
    '.5',
    '1e',
    '1e+',
    '1E-2',
    '+1',
    'tru',
    'true',
    'nul',
    'null ',
    'NaN',
    'Infinity',
    '{"input":tru}',
    '{"input":truex}',
    '{"input":-01}',
    '{"input":[1,2}}',
    '{"input":{]}',
    '{"input":{"a"}}',
    '{"input":{"a":}}',
    '{"input":{"a":1]}',
    "{'input':1}",
    '{input:1}',
    '{"input":1}/**/',
    '{"in\\u0070ut":[]}',
    '{"\\u0069\\u006e\\u0070\\u0075\\u0074":{"x":1},"input\\u0000":2}',
    '{"input":1,"input":2,"inpu\\u0074":3}',
    '{"input":"\u007f\u2028"}',
    '{"input":"\t"}',
    '{"input":"a\\nb"}',
    '\u00a0{}',
    '{"a":{"input":5}}',
    '{"__proto__":1,"input":{}}',
    '{}{}',
    '{"input"1}',
    '{1:2}',
    '{"":{}}',
    '{"policy":{"a":[{},[],""]}}',
  ]) {
    t.true(agrees(text), JSON.stringify(text));
  }
});

testProp('any JSON value, however it is spaced', [fc.json({ maxDepth: 6 }), fc.nat({ max: 4 })], (t, json, indent) => {
  t.true(agrees(json));
  const spaced = JSON.stringify({ other: 1, input: parses(json), policy: [parses(json)] }, null, indent);
  t.true(agrees(spaced));
});

testProp(
  'any JSON value with something cut, put in or changed',
  [
    fc.json({ maxDepth: 4 }),
    fc.nat(),
    fc.nat({ max: 3 }),
    fc.constantFrom('', '"', '{', '}', '[', ']', ',', ':', '\\', '0', '-', '.', 'e', 't', ' ', '\n', '\u0001', 'u00'),
  ],
  (t, json, at, cut, put) => {
    const text = `{"input":${json}}`;
    const place = at % (text.length + 1);
    t.true(agrees(text.slice(0, place) + put + text.slice(place + cut)));
  },
  { numRuns: 2000 },
);

test('nesting is refused beyond its limit, in no time and no memory', (t) => {
  const nested = (levels: number): Buffer => Buffer.from(`{"input":${'['.repeat(levels)}${']'.repeat(levels)}}`);
  t.true(scanObject(nested(511), wanted).ok);
  t.like(scanObject(nested(512), wanted), { ok: false, why: 'depth' });
  t.like(scanObject(nested(5_000_000), wanted), { ok: false, why: 'depth' });
});
