/** A body that the scanner has decided on is what the schema would return; any other is left to the schema. */
import test from 'ava';

import { parseBody } from '../../gateway/json/body.ts';
import { decidedBy, endpointParams, jobParams, submissionSchema } from '../../gateway/http/schemas.ts';

const BODIES = [
  '{"input":{}}',
  '{"input":{"a":[1,2]},"unknown":1}',
  '\uFEFF{ "input" : {"a":"ü"} }',
  '{"input":{},"input":{"b":1}}',
  '{}',
  '{"input":null}',
  '{"input":[]}',
  '{"input":"{}"}',
  '{"input":{},"webhook":null}',
  '{"input":{},"webhook":"ftp://x"}',
  '{"input":{},"policy":{"ttl":1}}',
  '{"input":{},"tags":["a"]}',
  '{"input":{},"id":"x"}',
  '{"input":{},"s3Config":[]}',
  '{"webhook":"http://a.example/"}',
];

test('submissions', (t) => {
  const isDecided = decidedBy(submissionSchema);
  const decided = BODIES.filter((text) => {
    const body = parseBody(Buffer.from(text));
    if (isDecided?.(body) !== true) return false;
    const result = submissionSchema.safeParse(body);
    t.true(result.success, text);
    t.deepEqual(result.data, body as never, text);
    return true;
  });
  t.deepEqual(decided, BODIES.slice(0, 4));
  for (const data of [null, undefined, 'text', [], { input: {} }]) t.false(isDecided?.(data), 'anything but a scanned body');
});

test('parameters of paths, which the router sets', (t) => {
  for (const [schema, data] of [
    [endpointParams, { endpointId: '' }],
    [jobParams, { endpointId: 'a', jobId: 'b' }],
  ] as const) {
    t.true(decidedBy(schema)?.(data));
    t.deepEqual(schema.parse(data), data as never);
  }
});
