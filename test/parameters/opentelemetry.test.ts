/** The current span of a Python handler with the real OpenTelemetry, installed from the registry; and what the SDK passes on. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { processRuntime } from '../conformance/runtime/hosts.ts';
import { startWorkerOf } from '../conformance/runtime/worker-under-test.ts';
import { folderOf } from '../support/folder.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';

const SOURCE = `
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from capstan.trace import current_trace_headers

trace.set_tracer_provider(TracerProvider())

def seen():
    context = trace.get_current_span().get_span_context()
    return [f"{context.trace_id:032x}", f"{context.span_id:016x}", current_trace_headers().get("traceparent")]

def f(ctx):
    before = seen()
    with trace.get_tracer("test").start_as_current_span("step"):
        return [before, seen()]

async def g(ctx):
    return f(ctx)
`;

for (const fn of ['f', 'g'])
  test(`${fn === 'f' ? 'a plain' : 'an asynchronous'} function's spans belong to the trace of its job, and calls continue them`, async (t) => {
    const folder = await folderOf(t, { 'main.py': SOURCE });
    const args = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--target', join(folder, 'python_packages')];
    await promisify(execFile)('python3', [...args, 'opentelemetry-api', 'opentelemetry-sdk']);
    const runtime = processRuntime();
    t.teardown(() => runtime.close());
    const env = { PYTHONPATH: join(import.meta.dirname, '../../sdk/python') };
    const worker = startWorkerOf(runtime, folder, fn, {
      env,
      functions: [{ name: fn, module: 'main.py', parameters: [], callStyle: 'CALL_STYLE_UNSPECIFIED' }],
    });
    await worker.hear('loaded');
    worker.run('1', {}, { trace: `00-${TRACE}-00f067aa0ba902b7-01` });
    const { value, result } = await worker.ended('1');
    t.is(result.kind, 'returned', JSON.stringify(result));
    const [outside, inside] = value as [string[], string[]];
    t.deepEqual(outside, [TRACE, '00f067aa0ba902b7', `00-${TRACE}-00f067aa0ba902b7-01`]);
    t.is(inside[0], TRACE);
    t.not(inside[1], '00f067aa0ba902b7');
    t.is(inside[2], `00-${TRACE}-${inside[1] ?? ''}-01`);
    worker.run('2', {});
    t.deepEqual(
      ((await worker.ended('2')).value as [string[], string[]])[0],
      ['0'.repeat(32), '0'.repeat(16), null],
      'a job without a trace has none',
    );
  });
