/** The trace that a handler sees, in every language: by its context, by the SDK, and as OpenTelemetry's current span. */
import { execFileSync } from 'node:child_process';
import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { folderOf } from '../../support/folder.ts';
import { processRuntime, threadRuntime } from './hosts.ts';
import { startWorkerOf } from './worker-under-test.ts';

const modules = join(import.meta.dirname, '../../../node_modules');
const traceOf = (n: number): string => `00-4bf92f3577b34da6a3ce929d0e0e473${n}-00f067aa0ba902b${n}-01`;

/** What is current before and after the handler has waited for the others. */
const NODE = `
import { trace } from '@opentelemetry/api';
import { setTimeout as pause } from 'node:timers/promises';
const now = () => {
  const { traceId, spanId, traceFlags } = trace.getActiveSpan()?.spanContext() ?? {};
  return [traceId && '00-' + traceId + '-' + spanId + '-0' + traceFlags, globalThis[Symbol.for('capstan.trace')]()];
};
export async function* f(input, ctx) {
  yield [ctx.traceparent ?? null, ...now()];
  await pause(50);
  yield [ctx.traceparent ?? null, ...now()];
}`;

const PYTHON = `
import asyncio, sys
async def f(ctx):
    seen = lambda: [ctx.traceparent, sys.modules["capstan_bootstrap.tracing"].current.get()]
    yield seen()
    await asyncio.sleep(0.05)
    yield seen()
`;

for (const [name, runtime] of [
  ['thread', threadRuntime],
  ['node', () => processRuntime()],
] as const)
  test(`${name}: jobs that run at once see their own traces, as OpenTelemetry's current span, too`, async (t) => {
    const folder = await folderOf(t, { 'main.mjs': NODE });
    await mkdir(join(folder, 'node_modules/@opentelemetry'), { recursive: true });
    await symlink(join(modules, '@opentelemetry/api'), join(folder, 'node_modules/@opentelemetry/api'));
    const own = runtime();
    t.teardown(() => own.close());
    const worker = startWorkerOf(own, folder, 'f', {
      maxConcurrency: 3,
      functions: [{ name: 'f', module: 'main.mjs', parameters: [], callStyle: 'CALL_STYLE_UNSPECIFIED' }],
    });
    await worker.hear('loaded');
    for (const n of [1, 2]) worker.run(String(n), {}, { trace: `${traceOf(n)} a=1` });
    worker.run('3', {});
    for (const n of [1, 2]) {
      const seen = [traceOf(n), traceOf(n), `${traceOf(n)} a=1`];
      t.deepEqual((await worker.ended(String(n))).value, [seen, seen]);
    }
    t.deepEqual((await worker.ended('3')).value, [
      [null, null, ''],
      [null, null, ''],
    ]);
  });

test('python: jobs that run at once see their own traces', async (t) => {
  const folder = await folderOf(t, { 'main.py': PYTHON });
  const own = processRuntime();
  t.teardown(() => own.close());
  const worker = startWorkerOf(own, folder, 'f', {
    maxConcurrency: 3,
    functions: [{ name: 'f', module: 'main.py', parameters: [], callStyle: 'CALL_STYLE_UNSPECIFIED' }],
  });
  await worker.hear('loaded');
  for (const n of [1, 2]) worker.run(String(n), {}, { trace: `${traceOf(n)} a=1` });
  worker.run('3', {});
  for (const n of [1, 2]) {
    const seen = [traceOf(n), `${traceOf(n)} a=1`];
    t.deepEqual((await worker.ended(String(n))).value, [seen, seen]);
  }
  t.deepEqual((await worker.ended('3')).value, [
    [null, ''],
    [null, ''],
  ]);
});

test('python: a request has the trace of its headers only if they are valid', (t) => {
  const bootstrap = join(import.meta.dirname, '../../../agent/runtimes/process/python');
  const given = [
    { traceparent: traceOf(1), tracestate: 'a=1' },
    { traceparent: traceOf(1), tracestate: 'ä=1' },
    { traceparent: traceOf(1), tracestate: `a=${'b'.repeat(600)}` },
    { traceparent: 'é' },
    { traceparent: `${traceOf(1)} x` },
    { traceparent: `00-${'0'.repeat(32)}-00f067aa0ba902b1-01` },
    { tracestate: 'a=1' },
    {},
  ].map((headers) => ({ headers: Object.entries(headers) }));
  const script =
    'import json, sys; from capstan_bootstrap.tracing import trace_of; print(json.dumps([trace_of(h) for h in json.load(sys.stdin)]))';
  const printed = execFileSync('python3', ['-c', script], { cwd: bootstrap, input: JSON.stringify(given), encoding: 'utf8' });
  t.deepEqual(JSON.parse(printed), [`${traceOf(1)} a=1`, traceOf(1), traceOf(1), '', '', '', '', '']);
});
