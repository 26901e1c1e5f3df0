/** Posts of foreign workers: their memory is shared fairly by workers, taken as bytes arrive, and not held by who sends slowly. */
import { connect, type Socket } from 'node:net';

import test, { type ExecutionContext } from 'ava';
import pino from 'pino';

import type { JobPost } from '../../agent/worker-api/job-mailbox.ts';
import { Signals } from './signals.ts';
import { WorkerApi, type WorkerApiOptions } from '../../agent/worker-api/server.ts';

const MEBIBYTE = 1024 * 1024;

interface Workers {
  readonly api: WorkerApi;
  readonly posts: { readonly worker: string; readonly jobId: string; readonly post: JobPost }[];
  /** Chunks that have come; each waits, as a generator that is ahead of its reader does, until it is let go. */
  readonly chunks: Signals<() => void>;
  /** Opens a connection and sends the head of a post, and then `text`. */
  post(worker: string, jobId: string, length: number, text: string, call?: 'job-done' | 'job-stream'): Post;
}

class Post {
  readonly socket: Socket;
  #text = '';
  readonly #ended: Promise<string>;

  constructor(t: ExecutionContext, port: number, text: string) {
    this.socket = connect(port, '127.0.0.1');
    this.socket.setEncoding('latin1');
    this.#ended = new Promise((resolve) => {
      this.socket.on('data', (more: string) => {
        this.#text += more;
        if (this.#text.includes('}')) resolve(this.#text);
      });
      this.socket.on('close', () => resolve(this.#text));
    });
    this.socket.on('error', () => undefined);
    this.socket.write(text);
    t.teardown(() => this.socket.destroy());
  }

  /** Status and headers of the answer. */
  async answer(): Promise<string> {
    return this.#ended;
  }
}

async function workers(t: ExecutionContext, options: Partial<WorkerApiOptions>): Promise<Workers> {
  const api = await WorkerApi.start({ host: '127.0.0.1', port: 0, log: pino({ level: 'silent' }), ...options });
  t.teardown(() => api.close());
  const posts: Workers['posts'] = [];
  const chunks = new Signals<() => void>();
  const tokens = new Map(
    ['w1', 'w2'].map((worker) => {
      const asked = (): never => t.fail('not asked');
      const post = (jobId: string, given: JobPost): void => {
        posts.push({ worker, jobId, post: given });
      };
      const chunk = async (): Promise<void> =>
        new Promise((resolve) => {
          chunks.push(resolve);
        });
      return [worker, api.admit(worker, 'ep', { take: asked, stops: asked, post, refuse: asked, chunk, ping: asked }).token];
    }),
  );
  return {
    api,
    posts,
    chunks,
    post(worker, jobId, length, text, call = 'job-done') {
      const head = `POST /v2/ep/${call}/${worker}/${jobId} HTTP/1.1\r\nHost: x\r\nAuthorization: ${tokens.get(worker) ?? ''}\r\nContent-Length: ${length}\r\n\r\n`;
      return new Post(t, api.port, head + text);
    },
  };
}

test('a worker that fills its share is refused, and another one posts its result', async (t) => {
  const { post, posts, chunks } = await workers(t, { bodyMemoryBytes: 4 * MEBIBYTE });
  const whole = `{"output":"${'x'.repeat(MEBIBYTE - 13)}"}`;
  const held = [1, 2].map((n) => post('w1', `j${n}`, whole.length, whole, 'job-stream'));
  const releases = [await chunks.next(() => true), await chunks.next(() => true, 1)];
  const refused = await post('w1', 'j3', whole.length, whole).answer();
  t.regex(refused, /^HTTP\/1\.1 503 /);
  t.regex(refused, /retry-after: 1\r\n/);
  t.regex(refused, /request bodies of this worker already use its share/);
  t.regex(await post('w2', 'j', whole.length, whole).answer(), /^HTTP\/1\.1 200 /);
  for (const each of releases) each();
  for (const each of held) t.regex(await each.answer(), /^HTTP\/1\.1 200 /);
  // All of it is given back.
  for (const jobId of ['j3', 'j4']) t.regex(await post('w1', jobId, whole.length, whole).answer(), /^HTTP\/1\.1 200 /);
  t.deepEqual(
    posts.map(({ worker, jobId }) => `${worker} ${jobId}`),
    ['w2 j', 'w1 j3', 'w1 j4'],
  );
});

test('announced lengths take no memory', async (t) => {
  const { post } = await workers(t, { bodyMemoryBytes: 64 * MEBIBYTE });
  for (let n = 0; n < 50; n += 1) post('w1', `j${n}`, 20 * MEBIBYTE, '{');
  const whole = `{"output":"${'x'.repeat(8 * MEBIBYTE)}"}`;
  t.regex(await post('w1', 'big', whole.length, whole).answer(), /^HTTP\/1\.1 200 /);
});

test('a post that comes too slowly is 408 and ends its connection', async (t) => {
  const { post, posts } = await workers(t, { uploadRule: { minBytes: 1000, windowMs: 100, now: () => performance.now() } });
  const answer = await post('w1', 'j1', 5000, '{').answer();
  t.regex(answer, /^HTTP\/1\.1 408 /);
  t.regex(answer, /connection: close\r\n/);
  t.deepEqual(posts, []);
});
