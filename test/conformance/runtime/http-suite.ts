/**
 * What every runtime must do alike with HTTP requests (RunningWorker.serve), under test/lb's promises: in all
 * languages, without a gateway. {@link httpConformance} is for workers with functions, {@link serverConformance}
 * for programs that listen themselves.
 */
import test, { type ExecutionContext } from 'ava';

import type { HttpCall, HttpRequest, Runtime, WorkerStart } from '../../../agent/runtimes/runtime.ts';
import { HTTP_WINDOW_BYTES } from '../../../agent/runtimes/runtime.ts';
import { WorkerEnd } from '../../../proto/gen/capstan/v1/invoke.ts';
import { Signals } from '../../agent/signals.ts';
import { SERVER_SOURCE, type HttpBuild } from './functions-http.ts';
import { startWorkerOf, type TestWorker } from './worker-under-test.ts';
import { folderOf } from '../../support/folder.ts';

export type MakeRuntime = (t: ExecutionContext) => Runtime | Promise<Runtime>;

type Heard =
  | {
      readonly on: 'head';
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      readonly cookies: readonly string[];
    }
  | { readonly on: 'body'; readonly bytes: Buffer }
  | { readonly on: 'credit'; readonly bytes: number }
  | { readonly on: 'ended' }
  | {
      readonly on: 'failed';
      readonly code: string;
      readonly message: string;
      readonly untouched: boolean;
      readonly workerEnd: WorkerEnd | undefined;
    };

export interface Asked {
  readonly call: HttpCall;
  readonly heard: Signals<Heard>;
}

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Several headers of one name stay several. */
  readonly cookies: readonly string[];
  readonly body: Buffer;
  readonly json: unknown;
}

/** Hands a request to a worker. Credit for the answer is given as it comes, unless `reads` is false. */
export function ask(worker: TestWorker, fn: string, more: Partial<HttpRequest> = {}, reads = true): Asked {
  const heard = new Signals<Heard>(60_000);
  const took = (bytes: Buffer, ended: boolean): void => {
    if (bytes.length > 0) heard.push({ on: 'body', bytes });
    if (bytes.length > 0 && reads && !ended) call?.credit(bytes.length);
    if (ended) heard.push({ on: 'ended' });
  };
  const call = worker.worker.serve?.(
    { function: fn, method: 'GET', url: 'http://host.test/', headers: [], pathValues: {}, body: Buffer.alloc(0), ended: true, ...more },
    {
      head(status, headers, body, ended) {
        const named = headers.map(([name, value]): [string, string] => [name.toLowerCase(), value]);
        const cookies = named.flatMap(([name, value]) => (name === 'set-cookie' ? [value] : []));
        heard.push({ on: 'head', status, headers: Object.fromEntries(named), cookies });
        took(body, ended);
      },
      body: took,
      credit: (bytes) => heard.push({ on: 'credit', bytes }),
      failed: (code, message, untouched, workerEnd) => heard.push({ on: 'failed', code, message, untouched, workerEnd }),
    },
  );
  if (call === undefined) throw new Error('the runtime serves no requests');
  return { call, heard };
}

/** The whole answer; rejects when there is none. */
export async function answered({ heard }: Asked): Promise<Answer> {
  const last = await heard.next(({ on }) => on === 'ended' || on === 'failed');
  if (last.on === 'failed') throw new Error(`${last.code}: ${last.message}`);
  const head = heard.items.find((item) => item.on === 'head');
  const body = bodyOf(heard);
  let json: unknown;
  try {
    json = JSON.parse(body.toString());
  } catch {
    json = undefined;
  }
  return { status: head?.status ?? 0, headers: head?.headers ?? {}, cookies: head?.cookies ?? [], body, json };
}

export function bodyOf({ items }: Signals<Heard>): Buffer {
  return Buffer.concat(items.flatMap((item) => (item.on === 'body' ? [item.bytes] : [])));
}

const jsonBody = (value: unknown): Partial<HttpRequest> => ({ method: 'POST', body: Buffer.from(JSON.stringify(value)) });
export const query = (text: string): Partial<HttpRequest> => ({ url: `http://host.test/?${text}` });

export function httpConformance(name: string, makeRuntime: MakeRuntime, build: HttpBuild): void {
  const workerOf = async (t: ExecutionContext, more: Partial<WorkerStart> = {}): Promise<TestWorker> => {
    const folder = await folderOf(t, build.files);
    const runtime = await makeRuntime(t);
    t.teardown(() => runtime.close());
    const worker = startWorkerOf(runtime, folder, '', { functions: build.functions, servesHttp: true, maxConcurrency: 8, ...more });
    await worker.hear('loaded');
    return worker;
  };

  test(`${name}: parameters come from path, body and query, and what does not fit is 400 by name`, async (t) => {
    const worker = await workerOf(t);
    const json = async (fn: string, more: Partial<HttpRequest>): Promise<unknown> => (await answered(ask(worker, fn, more))).json;
    t.deepEqual(await json('hello', jsonBody({ name: 'Ada', times: 2 })), { hello: 'Ada', times: 2 });
    t.deepEqual(await json('hello', { ...query('times=3'), ...jsonBody({ name: 'Ada' }) }), { hello: 'Ada', times: 3 });
    t.deepEqual(await json('item', { pathValues: { id: '7' } }), { id: 7, verbose: false });
    t.deepEqual(await json('item', { ...query('verbose=1'), pathValues: { id: '7' } }), { id: 7, verbose: true });
    t.deepEqual(await json('search', query('q=a%20b&tags=x&tags=y')), { q: 'a b', tags: ['x', 'y'] });
    t.deepEqual(await json('whole', { ...query('a=1'), ...jsonBody({ b: 2 }), pathValues: { c: '3' } }), { a: '1', b: 2, c: '3' });
    t.is(await json('later', query('value=1.5')), 1.5);

    const takes = 'is not a parameter of this route; it takes name, times';
    for (const [fn, more, detail] of [
      ['hello', jsonBody({}), 'name: is required'],
      ['hello', jsonBody({ name: 1 }), 'name: must be a string'],
      ['hello', jsonBody({ name: 'a', times: 1.5 }), 'times: must be an integer'],
      ['hello', jsonBody({ name: 'a', nam: 1 }), `nam: ${takes}`],
      ['hello', { method: 'POST', body: Buffer.from('{') }, 'body: must be JSON'],
      ['hello', { method: 'POST', body: Buffer.from([0x22, 0xff, 0x22]) }, 'body: must be UTF-8 text'],
      [
        'hello',
        { ...jsonBody({ name: 'a' }), headers: [['content-encoding', 'GZIP']] },
        'Content-Encoding: must be absent; a function that takes the raw request may decode its body',
      ],
      ['hello', jsonBody([]), 'body: must be a JSON object whose keys are the parameters'],
      ['item', { pathValues: { id: 'x' } }, 'id: must be an integer'],
      ['item', { pathValues: { id: '1_0' } }, 'id: must be an integer'],
      ['item', { pathValues: { id: '0x10' } }, 'id: must be an integer'],
      ['item', { ...query('verbose=maybe'), pathValues: { id: '1' } }, 'verbose: must be a boolean'],
      ['later', query('value=nan'), 'value: must be a number'],
      ['later', query('value=Infinity'), 'value: must be a number'],
    ] as const) {
      const refused = await answered(ask(worker, fn, more));
      t.is(refused.status, 400, detail);
      t.deepEqual(refused.json, { error: 'Bad Request', detail });
    }
    t.is((await answered(ask(worker, 'nothing'))).status, 404);
  });

  test(`${name}: values, bytes, responses and streams are answered as what they are`, async (t) => {
    const worker = await workerOf(t);
    const octets = await answered(ask(worker, 'octets'));
    t.is(octets.headers['content-type'], 'application/octet-stream');
    t.deepEqual([...octets.body], [0, 1, 255]);
    const teapot = await answered(ask(worker, 'teapot'));
    t.like(teapot, { status: 418, body: Buffer.from('short and stout') });
    t.is(teapot.headers['x-pot'], 'tea');
    t.deepEqual(teapot.cookies, ['a=1', 'b=2']);
    const lines = await answered(ask(worker, 'count', query('to=2')));
    t.is(lines.body.toString(), '{"n":1}\n{"n":2}\n');
    t.is(lines.headers['content-type'], 'application/x-ndjson; charset=utf-8');
    const events = await answered(ask(worker, 'count', { ...query('to=2'), headers: [['accept', 'text/event-stream']] }));
    t.is(events.body.toString(), 'data: {"n":1}\n\ndata: {"n":2}\n\n');
    t.is(events.headers['content-type'], 'text/event-stream; charset=utf-8');
    // What is an event already is not wrapped once more.
    const own = await answered(ask(worker, 'events', { headers: [['accept', 'text/event-stream']] }));
    t.is(
      own.body.toString(),
      'data: {"n":1}\n\n: keep-alive\n\nevent: tick\r\nid: 2\r\ndata: two\r\n\r\ndata: three\n\ndata: four\n\n' +
        'data: data: no end\n\ndata: two\ndata: lines\ndata: \ndata: \n\n',
    );
    t.is((await answered(ask(worker, 'words'))).body.toString(), 'one two');
    // Longer than a part and than what may be on its way unread.
    t.is(((await answered(ask(worker, 'large', query('size=1000000')))).json as string).length, 1_000_000);

    const broken = await answered(ask(worker, 'boom'));
    t.is(broken.status, 500);
    t.deepEqual(broken.json, { error: 'Internal Server Error', detail: 'it broke' });
    await worker.hear('log', ({ stream, text }) => stream === 'stderr' && text.includes('it broke'));
    const cut = ask(worker, 'breaks');
    t.like(await cut.heard.next(({ on }) => on === 'failed'), { code: 'INTERNAL', message: 'broke in the middle', untouched: false });
    t.is(bodyOf(cut.heard).toString(), 'begun');
  });

  test(`${name}: bodies pass as they come, no further ahead than they are read`, async (t) => {
    const worker = await workerOf(t);
    const part = Buffer.alloc(HTTP_WINDOW_BYTES, 'x');
    const headers = [
      ['x-own', 'kept'],
      ['content-type', 'text/plain'],
    ] as const;
    const echo = ask(worker, 'echo', { method: 'PUT', url: 'http://host.test/e?x=1', headers, body: part, ended: false });
    t.like(await echo.heard.next(({ on }) => on === 'head'), {
      status: 201,
      headers: { 'x-method': 'PUT', 'x-url': 'http://host.test/e?x=1', 'x-own': 'kept' },
    });
    // What was read comes back while the body is not at its end.
    await echo.heard.next(({ on }) => on === 'credit');
    await echo.heard.next(() => bodyOf(echo.heard).length === part.length);
    echo.call.body(part, false);
    echo.call.body(Buffer.from('end'), true);
    t.is((await answered(echo)).body.length, 2 * part.length + 3);

    // Nobody reads: the generator waits at the end of the window.
    const endless = ask(worker, 'endless', {}, false);
    await endless.heard.next(() => bodyOf(endless.heard).length >= HTTP_WINDOW_BYTES);
    t.is((await answered(ask(worker, 'hello', jsonBody({ name: 'meanwhile' })))).status, 200);
    t.is(bodyOf(endless.heard).length, HTTP_WINDOW_BYTES);
    endless.call.abort(false);
    const { text } = await worker.hear('log', ({ text: line }) => line.startsWith('ended after'));
    t.true(Number(text.split(' ').at(-1)) <= HTTP_WINDOW_BYTES / 65_536 + 2, text);
  });

  test(`${name}: a caller that goes away ends the function; one that does not end by force costs the worker`, async (t) => {
    const worker = await workerOf(t);
    const parked = ask(worker, 'parked');
    await worker.hear('log', ({ text }) => text === 'parked');
    parked.call.abort(false);
    await worker.hear('log', ({ text }) => text === 'let go');
    t.is((await answered(ask(worker, 'hello', jsonBody({ name: 'Ada' })))).status, 200);

    const deaf = ask(worker, 'deaf');
    await worker.hear('log', ({ text }) => text === 'deaf');
    deaf.call.abort(true);
    const failed = await deaf.heard.next(({ on }) => on === 'failed');
    t.like(failed, { code: 'WORKER_LOST', untouched: false });
    // What comes once nobody reads any more has reached no function.
    t.false((await worker.hear('reachable')).is);
    const late = ask(worker, 'hello', jsonBody({ name: 'late' }));
    t.like(await late.heard.next(({ on }) => on === 'failed'), { code: 'UNAVAILABLE', untouched: true });
    t.true((await worker.hear('exited')).hardStop);
  });

  test(`${name}: a function that ends the worker's process ends the requests beside it, at once`, async (t) => {
    const worker = await workerOf(t);
    const parked = ask(worker, 'parked');
    await worker.hear('log', ({ text }) => text === 'parked');
    const { length } = worker.said.items;
    const written = ask(worker, 'parked', { method: 'POST' });
    await worker.hear('log', ({ text }) => text === 'parked', length);
    const leaving = ask(worker, 'leaves', query('code=7'));
    t.like(await leaving.heard.next(({ on }) => on === 'failed'), { code: 'WORKER_LOST', untouched: false });
    // Those beside it may be repeated where their methods allow it.
    const neighbour = { code: 'WORKER_LOST', workerEnd: WorkerEnd.NEIGHBOUR };
    t.like(await parked.heard.next(({ on }) => on === 'failed'), { ...neighbour, untouched: true });
    t.like(await written.heard.next(({ on }) => on === 'failed'), { ...neighbour, untouched: false });
    t.regex((await worker.hear('exited')).detail, /code 7/);
  });
}

/** `more`: what makes the runtime run the server, as a command or an image. */
export function serverConformance(name: string, makeRuntime: MakeRuntime, more: Partial<WorkerStart>): void {
  test(`${name}: a program that listens itself is asked whether it is ready, and gets requests and connections as they come`, async (t) => {
    const folder = await folderOf(t, { 'server.py': SERVER_SOURCE });
    const runtime = await makeRuntime(t);
    t.teardown(() => runtime.close());
    const worker = startWorkerOf(runtime, folder, '', {
      functions: [],
      servesHttp: true,
      maxConcurrency: 8,
      // Another port for GET /ping than for requests.
      env: { PORT: '8000', PORT_HEALTH: '8001' },
      ...more,
    });
    await worker.hear('log', ({ text }) => text === 'listens on 2');
    await worker.hear('loaded');
    const answer = await answered(
      ask(worker, '', { method: 'POST', url: 'http://host.test/a?b=1', headers: [['content-length', '4']], body: Buffer.from('body') }),
    );
    t.like(answer, { status: 203, body: Buffer.from('body') });
    t.is(answer.headers['x-path'], '/a?b=1');
    t.is(answer.headers['x-pings'], '3', 'twice it was initialising');

    const socket = ask(worker, '', {
      upgrade: true,
      ended: false,
      headers: [
        ['sec-websocket-key', 'dGhlIHNhbXBsZSBub25jZQ=='],
        ['sec-websocket-version', '13'],
      ],
    });
    t.like(await socket.heard.next(({ on }) => on === 'head'), { status: 101 });
    socket.call.body(Buffer.from('over and back'), false);
    t.is((await answered(socket)).body.toString(), 'over and back');

    const exit = ask(worker, '', { url: 'http://host.test/exit' });
    t.like(await exit.heard.next(({ on }) => on === 'failed'), { code: 'WORKER_LOST', untouched: false });
    t.regex((await worker.hear('exited')).detail, /exited with code 3/);
  });
}
