/** The OpenAI route: what becomes of a call, of its answer and of its errors. */
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';

import test, { type ExecutionContext } from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import { JobState, type Payload } from '../../proto/gen/capstan/v1/common.ts';
import type { Job, StreamPart } from '../../proto/gen/capstan/v1/jobs.ts';
import { inline, job, type FakeScheduler, type ReadAsked, type SubmitAsked } from './fake-scheduler.ts';
import { KEY, setup, type Setup } from './harness.ts';

const CHAT = '/v2/ep/openai/v1/chat/completions';
const STREAMED = JSON.stringify({ stream: true, messages: [] });

/** A worker whose job is told part by part; each read gets the next one, and the submission its end. */
function worker(scheduler: FakeScheduler, parts: readonly Partial<StreamPart>[], end: Partial<Job> & { readonly state: JobState }): void {
  const left = [...parts];
  let submitted: SubmitAsked | null = null;
  scheduler.onSubmit = (asked) => {
    submitted = asked;
  };
  scheduler.onStream = (asked) => {
    const part = left.shift() ?? { state: end.state };
    asked.stream_({ state: JobState.IN_PROGRESS, chunks: [], ...part });
    if (left.length === 0 && part.state === end.state) submitted?.reply(job(asked.jobId, end.state, end));
  };
}

const chunks = (...values: readonly unknown[]): Payload[] => values.map((value) => inline(JSON.stringify(value)));

test('a call becomes a job whose input holds the body byte for byte; its one yield goes back raw', async (t) => {
  const { scheduler, call } = await setup(t);
  const raw = '{ "id":"chatcmpl-1", "n":12345678901234567890.10 }';
  worker(scheduler, [{ chunks: [inline(raw)] }, { state: JobState.COMPLETED }], { state: JobState.COMPLETED, output: inline(`[${raw}]`) });
  const body = '{ "model" : "m",\n "temperature":0.10, "messages":[], "stream":false }';
  const reply = await call('POST', `${CHAT}?trace=1`, { body });
  t.is(reply.status, 200);
  t.is(reply.text, raw);
  t.is(reply.headers['content-type'], 'application/json; charset=utf-8');
  const [submit] = scheduler.submits;
  t.is(scheduler.inputOf(submit), `{"openai_route":"/v1/chat/completions","openai_input":${body},"openai_query":"trace=1"}`);
  t.regex(submit?.jobId ?? '', /^sync-/);
  t.is(submit?.kind, 'JOB_KIND_RUNSYNC');
  t.is(reply.headers['x-request-id'], submit?.jobId);
});

test('a byte order mark before the body is not part of it', async (t) => {
  const { scheduler, call } = await setup(t);
  worker(scheduler, [{ chunks: [inline('{}')] }, { state: JobState.COMPLETED }], { state: JobState.COMPLETED, output: inline('[{}]') });
  t.is((await call('POST', CHAT, { body: '\uFEFF{"model":"m"}' })).status, 200);
  t.is(scheduler.inputOf(scheduler.submits[0]), '{"openai_route":"/v1/chat/completions","openai_input":{"model":"m"}}');
});

test('the submission counts as openai for as long as it lasts, what is done within it not at all', async (t) => {
  const { scheduler, call } = await setup(t);
  const counted: string[] = [];
  worker(scheduler, [{ state: JobState.COMPLETED }], { state: JobState.COMPLETED, output: inline('{}') });
  const { onSubmit, onStream } = scheduler;
  scheduler.onSubmit = (asked) => {
    counted.push(`submit ${asked.request.limitedAs} ${asked.submit.waitMs > 0 ? 'waits' : 'does not wait'}`);
    onSubmit(asked);
  };
  scheduler.onStream = (asked) => {
    counted.push(`stream ${asked.request.limitedAs}`);
    onStream(asked);
  };
  await call('GET', '/v2/ep/openai/v1/models');
  t.deepEqual(counted, ['submit openai waits', 'stream none']);
});

test('methods: GET has a route alone, others than GET and POST are named', async (t) => {
  const { scheduler, call } = await setup(t);
  for (const [method, path, body, input] of [
    ['GET', '/v1/models', undefined, '{"openai_route":"/v1/models"}'],
    ['GET', '/v1/models/meta%2Fllama?limit=2', undefined, '{"openai_route":"/v1/models/meta/llama","openai_query":"limit=2"}'],
    ['DELETE', '/v1/files/f1', undefined, '{"openai_route":"/v1/files/f1","openai_method":"DELETE"}'],
    ['PUT', '/v1/x', '{"a":1}', '{"openai_route":"/v1/x","openai_input":{"a":1},"openai_method":"PUT"}'],
  ] as const) {
    scheduler.submits.length = 0;
    worker(scheduler, [{ state: JobState.COMPLETED }], { state: JobState.COMPLETED, output: inline('{"ok":true}') });
    const reply = await call(method, `/v2/ep/openai${path}`, body === undefined ? {} : { body });
    t.is(reply.text, '{"ok":true}');
    t.is(scheduler.inputOf(scheduler.submits[0]), input);
  }
});

test('answers of other handlers: a returned value, a JSON text, a text, several yields, a large one', async (t) => {
  const { scheduler, call } = await setup(t);
  const large = JSON.stringify({ text: 'x'.repeat(100_000) });
  const cases: [Partial<StreamPart>[], Payload, string, string][] = [
    [[], inline('{"a":[1.0]}'), '{"a":[1.0]}', 'application/json; charset=utf-8'],
    [[{ chunks: chunks('{"a": 1.0}') }], inline('[]'), '{"a": 1.0}', 'application/json; charset=utf-8'],
    [[{ chunks: chunks('plain words') }], inline('[]'), 'plain words', 'text/plain; charset=utf-8'],
    [[{ chunks: chunks(1, 2) }], inline('[1,2]'), '[1,2]', 'application/json; charset=utf-8'],
    [[{ chunks: [scheduler.putBlob(large)] }], inline('[]'), large, 'application/json; charset=utf-8'],
    [[], scheduler.putBlob(large), large, 'application/json; charset=utf-8'],
  ];
  for (const [parts, output, text, type] of cases) {
    worker(scheduler, [...parts, { state: JobState.COMPLETED }], { state: JobState.COMPLETED, output });
    const reply = await call('POST', CHAT, { body: '{}' });
    t.is(reply.status, 200);
    t.is(reply.text, text);
    t.is(reply.headers['content-type'], type);
  }
});

test('a large body travels apart', async (t) => {
  const { scheduler, call } = await setup(t);
  worker(scheduler, [{ state: JobState.COMPLETED }], { state: JobState.COMPLETED, output: inline('{}') });
  const body = JSON.stringify({ messages: [{ content: 'x'.repeat(200_000) }] });
  t.is((await call('POST', CHAT, { body })).status, 200);
  t.is(scheduler.submits[0]?.input?.body?.$case, 'blob');
  t.is(scheduler.inputOf(scheduler.submits[0]), `{"openai_route":"/v1/chat/completions","openai_input":${body}}`);
});

test('streaming: each text arrives as it was yielded, before the job has ended', async (t) => {
  const { scheduler, gateway } = await setup(t);
  const asked = queueOf(scheduler);
  scheduler.onSubmit = () => undefined;
  const answer = post(t, gateway.url, STREAMED);
  (await asked.next()).stream_({ state: JobState.IN_PROGRESS, chunks: chunks('data: {"a":1}\n\nda'), firstIndex: 0, token: 1 });
  const reply = await answer;
  t.is(reply.statusCode, 200);
  t.is(reply.headers['content-type'], 'text/event-stream; charset=utf-8');
  t.is(reply.headers['x-accel-buffering'], 'no');
  t.is(await text(reply), 'data: {"a":1}\n\nda');
  (await asked.next()).stream_({ state: JobState.IN_PROGRESS, chunks: chunks('ta: [DONE]\n\n'), firstIndex: 1, token: 1 });
  t.is(await text(reply), 'ta: [DONE]\n\n');
  reply.destroy();
});

test('yielded objects become events, closed by [DONE]; a handler that is no generator sends one', async (t) => {
  const { scheduler, call } = await setup(t);
  worker(scheduler, [{ chunks: chunks({ a: 1 }, { b: 2 }) }, { state: JobState.COMPLETED }], { state: JobState.COMPLETED });
  t.is((await call('POST', CHAT, { body: STREAMED })).text, 'data: {"a":1}\n\ndata: {"b":2}\n\ndata: [DONE]\n\n');
  worker(scheduler, [{ state: JobState.COMPLETED }], { state: JobState.COMPLETED, output: inline('{"a":1}') });
  t.is((await call('POST', CHAT, { body: STREAMED })).text, 'data: {"a":1}\n\ndata: [DONE]\n\n');
  worker(scheduler, [{ state: JobState.COMPLETED }], { state: JobState.COMPLETED, output: inline('"data: {}\\n\\n"') });
  t.is((await call('POST', CHAT, { body: STREAMED })).text, 'data: {}\n\n');
});

test('chunks that come twice are passed on once; lost ones come out of the output', async (t) => {
  const { scheduler, call } = await setup(t);
  const said = ['a\n\n', 'b\n\n', 'c\n\n', 'd\n\n'];
  const output = inline(JSON.stringify(said));
  const cases: [string, Partial<StreamPart>[]][] = [
    [
      'twice',
      [
        { chunks: chunks('a\n\n', 'b\n\n'), firstIndex: 0, token: 1 },
        { chunks: chunks('b\n\n', 'c\n\n', 'd\n\n'), firstIndex: 1, token: 1 },
        { state: JobState.COMPLETED, firstIndex: 4, token: 1 },
      ],
    ],
    [
      'a gap in the middle',
      [
        { chunks: chunks('a\n\n'), firstIndex: 0, token: 1 },
        { chunks: chunks('c\n\n'), firstIndex: 2, token: 1 },
        { state: JobState.COMPLETED, firstIndex: 3, token: 1 },
      ],
    ],
    [
      'a gap that only the end shows',
      [
        { chunks: chunks('a\n\n'), firstIndex: 0, token: 1 },
        { state: JobState.COMPLETED, firstIndex: 4, token: 1 },
      ],
    ],
    [
      'the last chunks without their place, one lost',
      [
        { chunks: chunks('a\n\n'), firstIndex: 0, token: 1 },
        { state: JobState.COMPLETED, chunks: chunks('c\n\n', 'd\n\n'), token: 1 },
      ],
    ],
    ['the last chunks without their place, none lost', [{ state: JobState.COMPLETED, chunks: chunks(...said), token: 1 }]],
  ];
  for (const [name, parts] of cases) {
    worker(scheduler, parts, { state: JobState.COMPLETED, output });
    t.is((await call('POST', CHAT, { body: STREAMED })).text, said.join(''), name);
  }
});

test('an attempt that begins anew in the middle of an answer ends it with an error event', async (t) => {
  const { scheduler, call } = await setup(t);
  worker(
    scheduler,
    [
      { chunks: chunks('data: 1\n\n'), firstIndex: 0, token: 1 },
      { chunks: chunks('data: 1\n\n'), firstIndex: 0, token: 2 },
    ],
    { state: JobState.COMPLETED },
  );
  const reply = await call('POST', CHAT, { body: STREAMED });
  t.is(
    reply.text,
    'data: 1\n\nevent: error\ndata: {"error":{"message":"the worker was lost during its response","type":"server_error","param":null,"code":"worker_lost"}}\n\n',
  );
  // Before anything was passed on it is no one's business.
  worker(
    scheduler,
    [{ token: 1, firstIndex: 0 }, { chunks: chunks('data: 1\n\n'), firstIndex: 0, token: 2 }, { state: JobState.COMPLETED }],
    { state: JobState.COMPLETED },
  );
  t.is((await call('POST', CHAT, { body: STREAMED })).text, 'data: 1\n\n');
});

test('a job that fails is an HTTP error in OpenAI’s shape, streaming or not; its clients are told not to repeat it', async (t) => {
  const { scheduler, call } = await setup(t);
  for (const body of ['{}', STREAMED]) {
    for (const [end, status, message, code] of [
      [{ state: JobState.FAILED, error: 'no "luck"' }, 500, 'no "luck"', 'handler_error'],
      [{ state: JobState.FAILED, error: '{"error_type":"ValueError","error_message":"bad"}' }, 500, 'bad', 'handler_error'],
      [{ state: JobState.TIMED_OUT, error: 'executionTimeout exceeded' }, 504, 'executionTimeout exceeded', 'timeout'],
      [{ state: JobState.CANCELLED, error: 'purged from the queue' }, 500, 'purged from the queue', 'cancelled'],
    ] as const) {
      worker(scheduler, [{ state: end.state }], end);
      const reply = await call('POST', CHAT, { body });
      t.is(reply.status, status);
      t.deepEqual(reply.json, { error: { message, type: 'server_error', param: null, code } });
      t.is(reply.headers['x-should-retry'], 'false');
    }
  }
});

test('an error that the handler yields has the status it says', async (t) => {
  const { scheduler, call } = await setup(t);
  const vllm = { object: 'error', message: 'too long', type: 'BadRequestError', param: null, code: 400 };
  for (const [value, status, error] of [
    [vllm, 400, { message: 'too long', type: 'BadRequestError', param: null, code: null }],
    [
      { error: { message: 'slow down', type: 'rate_limit_error', code: 429 } },
      429,
      { message: 'slow down', type: 'rate_limit_error', param: null, code: null },
    ],
    [{ error: 'oh no' }, 500, { message: 'oh no', type: 'server_error', param: null, code: 'handler_error' }],
  ] as const) {
    for (const [body, chunk] of [
      ['{}', value],
      [STREAMED, value],
      [STREAMED, `data: ${JSON.stringify(value)}\n\n`],
    ] as const) {
      worker(scheduler, [{ chunks: chunks(chunk) }, { state: JobState.COMPLETED }], { state: JobState.COMPLETED });
      const reply = await call('POST', CHAT, { body });
      t.is(reply.status, status);
      t.deepEqual(reply.json, { error });
    }
  }
});

test('an error after the first text is the last event, on a line of its own', async (t) => {
  const { scheduler, call } = await setup(t);
  worker(scheduler, [{ chunks: chunks('data: {"half') }, { state: JobState.FAILED, error: 'boom' }], {
    state: JobState.FAILED,
    error: 'boom',
  });
  const reply = await call('POST', CHAT, { body: STREAMED });
  t.is(reply.status, 200);
  t.is(
    reply.text,
    'data: {"half\n\nevent: error\ndata: {"error":{"message":"boom","type":"server_error","param":null,"code":"handler_error"}}\n\n',
  );
});

test('the last chunks of a job that failed come before its error', async (t) => {
  const { scheduler, call } = await setup(t);
  const end = { state: JobState.FAILED, error: 'boom' };
  worker(
    scheduler,
    [
      { chunks: chunks('data: 1\n\n'), firstIndex: 0, token: 1 },
      { ...end, chunks: chunks('data: 2\n\n'), token: 1 },
    ],
    end,
  );
  t.true((await call('POST', CHAT, { body: STREAMED })).text.startsWith('data: 1\n\ndata: 2\n\nevent: error\n'));
});

test('every refusal on this path has OpenAI’s shape', async (t) => {
  const { scheduler, call } = await setup(t);
  const refused = async (status: number, message: RegExp, reply: Promise<Awaited<ReturnType<Setup['call']>>>): Promise<void> => {
    const { status: got, json, headers } = await reply;
    t.is(got, status);
    const { error } = json as { error: Record<string, unknown> };
    t.deepEqual(Object.keys(error), ['message', 'type', 'param', 'code']);
    t.regex(String(error['message']), message);
    t.is(headers['content-type'], 'application/json; charset=utf-8');
  };
  await refused(401, /Authorization is required/, call('POST', CHAT, { key: null, body: '{}' }));
  await refused(401, /unknown/, call('POST', CHAT, { key: 'wrong', body: '{}' }));
  await refused(404, /does not exist/, call('POST', '/v2/nope/openai/v1/chat/completions', { body: '{}' }));
  await refused(404, /no such route/, call('GET', '/v2/ep/openai'));
  await refused(405, /not allowed/, call('TRACE', CHAT));
  await refused(415, /Content-Type/, call('POST', CHAT, { body: 'x', headers: { 'content-type': 'multipart/form-data; boundary=x' } }));
  await refused(400, /must be JSON/, call('POST', CHAT, { body: '{"a":' }));
  await refused(400, /must be a JSON object/, call('POST', CHAT, { body: '[]' }));
  await refused(400, /required/, call('POST', CHAT));
  scheduler.onSubmit = (asked) =>
    asked.fail(new CapstanError('RATE_LIMITED', 'openai: more than 2000 requests in 10 seconds', { retryAfterMs: 2100 }));
  scheduler.onStream = (asked) => asked.fail(new CapstanError('NOT_FOUND', `job ${asked.jobId} not found`));
  for (const body of ['{}', STREAMED]) {
    const limited = call('POST', CHAT, { body });
    await refused(429, /more than 2000/, limited);
    t.is((await limited).headers['retry-after'], '3');
  }
});

test('a job whose time was over is a time-out', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.onSubmit = (asked) => asked.fail(new CapstanError('NOT_FOUND', `job ${asked.submit.jobId} not found: its ttl is over`));
  scheduler.onStream = (asked) => asked.fail(new CapstanError('NOT_FOUND', `job ${asked.jobId} not found`));
  const reply = await call('POST', CHAT, { body: '{}' });
  t.is(reply.status, 504);
  t.is((reply.json as { error: { code: string } }).error.code, 'timeout');
});

test('a caller that goes away cancels its job, uncounted; one that got its answer does not', async (t) => {
  const { scheduler, gateway, call } = await setup(t);
  for (const body of ['{}', STREAMED]) {
    const abort = new AbortController();
    const submitted = scheduler.next('submit');
    scheduler.onSubmit = () => undefined;
    scheduler.onStream = () => undefined;
    scheduler.onGet = (asked) => asked.reply(job(asked.jobId, JobState.IN_PROGRESS));
    const cancelled = new Promise<[string, string]>((resolve) => {
      scheduler.onCancel = ({ jobId, limitedAs }) => {
        resolve([jobId, limitedAs ?? '']);
        return job(jobId, JobState.CANCELLED);
      };
    });
    const answer = fetch(`${gateway.url}${CHAT}`, { method: 'POST', body, headers: headers(), signal: abort.signal });
    await submitted;
    abort.abort();
    await t.throwsAsync(answer);
    t.deepEqual(await cancelled, [scheduler.submits.at(-1)?.jobId, 'none']);
  }
  scheduler.onCancel = () => {
    throw new Error('nobody asked for it');
  };
  worker(scheduler, [{ state: JobState.COMPLETED }], { state: JobState.COMPLETED, output: inline('{}') });
  t.is((await call('POST', CHAT, { body: '{}' })).status, 200);
});

test('a caller that does not read makes the reading of the stream wait', async (t) => {
  const { scheduler, gateway } = await setup(t);
  scheduler.onSubmit = () => undefined;
  const big = `data: ${'x'.repeat(60_000)}\n\n`;
  const reads: ReadAsked[] = [];
  const stalled = Promise.withResolvers<void>();
  let last: NodeJS.Timeout | undefined;
  scheduler.onStream = (asked) => {
    const index = reads.push(asked) - 1;
    clearTimeout(last);
    // Nobody asks any more: the sockets' buffers are full.
    last = setTimeout(stalled.resolve, 500);
    asked.stream_({ state: JobState.IN_PROGRESS, chunks: chunks(big), firstIndex: index, token: 1 });
  };
  const reply = await post(t, gateway.url, STREAMED);
  reply.pause();
  await stalled.promise;
  t.true(reads.length < 1000, `${reads.length} reads of 60 kB`);
  const enough = reads.length + 50;
  reply.resume();
  while (reads.length < enough) await once(reply, 'data');
  reply.destroy();
  clearTimeout(last);
  t.pass();
});

test('a broken channel between two reads loses nothing', async (t) => {
  const { scheduler, gateway } = await setup(t);
  const asked = queueOf(scheduler);
  const submits: SubmitAsked[] = [];
  scheduler.onSubmit = (submit) => void submits.push(submit);
  const answer = post(t, gateway.url, STREAMED);
  (await asked.next()).stream_({ state: JobState.IN_PROGRESS, chunks: chunks('data: 1\n\n'), firstIndex: 0, token: 1 });
  const reply = await answer;
  t.is(await text(reply), 'data: 1\n\n');
  await asked.next();
  scheduler.stop();
  await scheduler.start();
  const again = await asked.next();
  t.is(again.request.resent, true);
  again.stream_({ state: JobState.COMPLETED, chunks: [], firstIndex: 2, token: 1 });
  submits.at(-1)?.reply(job(again.jobId, JobState.COMPLETED, { output: inline('["data: 1\\n\\n","data: 2\\n\\n"]') }));
  t.is(await text(reply), 'data: 2\n\n');
});

function headers(): Record<string, string> {
  return { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
}

async function post(t: ExecutionContext, url: string, body: string): Promise<IncomingMessage> {
  const request = httpRequest(`${url}${CHAT}`, { method: 'POST', headers: headers() });
  t.teardown(() => request.destroy());
  request.end(body);
  const [reply] = (await once(request, 'response')) as [IncomingMessage];
  reply.on('error', () => undefined);
  return reply;
}

async function text(reply: IncomingMessage): Promise<string> {
  const [bytes] = (await once(reply, 'data')) as [Buffer];
  return bytes.toString();
}

/** The reads of the stream, one after the other. */
function queueOf(scheduler: FakeScheduler): { next(): Promise<ReadAsked> } {
  const waiting: ReadAsked[] = [];
  let wake: () => void = () => undefined;
  scheduler.onStream = (asked) => {
    waiting.push(asked);
    wake();
  };
  return {
    async next() {
      while (waiting.length === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      return waiting.shift() as ReadAsked;
    },
  };
}
