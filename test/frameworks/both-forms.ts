/** What an application of any framework must do in both forms of its address: the endpoint's own host, and a path. */
import type { ExecutionContext } from 'ava';
import { Agent, FormData, request, WebSocket } from 'undici';

import type { Stack } from '../support/stack.ts';

export interface Abilities {
  /** It makes absolute links from its request: of what it sends at /items. */
  readonly links?: boolean;
  /** It redirects /slash to /slash/. */
  readonly slash?: boolean;
  /** It has a mounted application at /part/. */
  readonly part?: boolean;
  readonly webSockets?: boolean;
  /** It takes forms only from its own pages, by the header that browsers send. */
  readonly checksOrigin?: boolean;
}

/** Names below localhost need no DNS in a browser; here their connections go to the gateway. */
const TO_LOOPBACK = new Agent({
  connect: { lookup: (_name, _options, done) => done(null, [{ address: '127.0.0.1', family: 4 }]) },
});

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** One address of an endpoint, as a browser sees it. */
class Address {
  readonly #stack: Stack;
  /** Without a slash at the end. */
  readonly base: string;
  readonly isPath: boolean;

  constructor(stack: Stack, base: string, isPath: boolean) {
    this.#stack = stack;
    this.base = base;
    this.isPath = isPath;
  }

  /** Requests an absolute address, or a path of the application. */
  async call(to: string, options: { method?: 'POST'; body?: FormData; headers?: Record<string, string> } = {}): Promise<Answer> {
    const answer = await request(to.startsWith('/') ? `${this.base}${to}` : to, {
      ...options,
      dispatcher: TO_LOOPBACK,
      headers: { ...options.headers, authorization: `Bearer ${this.#stack.apiKey}` },
    });
    return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() };
  }

  async json(to: string, options: Parameters<Address['call']>[1] = {}): Promise<unknown> {
    const { status, text } = await this.call(to, options);
    if (status !== 200) throw new Error(`${to}: status ${status}: ${text}`);
    return JSON.parse(text);
  }

  /** Follows one redirect, as a browser. */
  async followed(to: string): Promise<Answer & { readonly at: string }> {
    const { status, headers } = await this.call(to);
    if (![301, 302, 303, 307, 308].includes(status)) throw new Error(`${to}: status ${status} is no redirect`);
    const at = new URL(String(headers['location']), `${this.base}${to}`).href;
    return { at, ...(await this.call(at)) };
  }

  async echoed(path: string, text: string): Promise<unknown> {
    const socket = new WebSocket(`${this.base.replace('http', 'ws')}${path}`, {
      dispatcher: TO_LOOPBACK,
      headers: { authorization: `Bearer ${this.#stack.apiKey}` },
    });
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    socket.addEventListener('open', () => socket.send(text));
    socket.addEventListener('message', ({ data }) => resolve(data));
    socket.addEventListener('error', ({ message }) => reject(new Error(message)));
    socket.addEventListener('close', ({ code }) => reject(new Error(`closed with ${code}`)));
    return promise;
  }
}

/** Both addresses of an endpoint. */
export function addressesOf(stack: Stack, id: string): readonly Address[] {
  const { port } = new URL(stack.url);
  return [new Address(stack, `http://${id}.lb.localhost:${port}`, false), new Address(stack, `${stack.url}/lb/${id}`, true)];
}

/** The same questions to every framework, in both forms. */
export async function mustServe(t: ExecutionContext, stack: Stack, id: string, abilities: Abilities): Promise<void> {
  const { links = false, slash = false, part = false, webSockets = false, checksOrigin = false } = abilities;
  for (const address of addressesOf(stack, id)) {
    const { base, isPath } = address;
    t.deepEqual(await address.json('/'), { home: true }, base);
    const item = (await address.json('/items/7?q=a%20b')) as { number: number; q: string; url?: string; link?: string };
    t.like(item, { number: 7, q: 'a b' }, base);
    if (links) {
      t.is(decodeURI(item.url ?? ''), `${base}/items/7?q=a b`);
      t.is((await address.call(item.link ?? '')).text, 'a static file', item.link);
    }
    t.is((await address.call('/static/a.txt')).text, 'a static file', base);
    t.is((await address.call('/none')).status, 404, base);

    const gone = await address.followed('/go');
    t.is(gone.status, 200, gone.at);
    t.like(JSON.parse(gone.text), { number: 1 });
    if (slash) t.deepEqual(JSON.parse((await address.followed('/slash')).text), { slash: true }, base);
    if (part) t.deepEqual(await address.json('/part/'), { part: `${base}/part/` });

    // The path form shares the gateway's own origin: its cookies are nobody's there.
    const { headers } = await address.call('/cookie');
    t.is(headers['set-cookie'] === undefined, isPath, base);
    t.deepEqual(await address.json('/cookies', { headers: { cookie: 'seen=yes' } }), isPath ? {} : { seen: 'yes' }, base);

    const body = new FormData();
    body.set('file', new Blob([new Uint8Array(300_000)]), 'photo.png');
    const origin = (from: string): Record<string, string> => (checksOrigin ? { origin: new URL(from).origin } : {});
    const upload = { method: 'POST', body, headers: origin(base) } as const;
    t.deepEqual(await address.json('/upload', upload), { name: 'photo.png', size: 300_000 }, base);
    if (checksOrigin) t.is((await address.call('/upload', { ...upload, headers: origin('http://other.test') })).status, 403, base);
    t.is((await address.call('/stream')).text, '0\n1\n2\n', base);
    if (webSockets) t.is(await address.echoed('/ws', 'hello'), 'echo: hello', base);
  }
}
