/** Routes whose responses the console's form shows: usual ones, and those of a hostile tenant. */
import { HOSTILE } from './handlers.ts';

/** Returns what arrived. */
export async function echo(request: Request): Promise<object> {
  const { pathname, search } = new URL(request.url);
  return { method: request.method, target: pathname + search, headers: Object.fromEntries(request.headers), body: await request.text() };
}

export function item(id: number, big = false): object {
  return { id, big };
}

export async function* ticks(): AsyncGenerator<string> {
  for (const word of ['one', 'two', 'three']) {
    yield `${word}\n`;
    await new Promise((done) => setTimeout(done, 300));
  }
}

/** Never ends. */
export async function* forever(): AsyncGenerator<string> {
  for (let n = 0; ; n++) {
    yield `data: ${n}\n\n`;
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** 50 MB. */
export async function* huge(): AsyncGenerator<Uint8Array> {
  for (let n = 0; n < 50; n++) yield new Uint8Array(1_000_000);
}

export function picture(): Uint8Array {
  return new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0, 0xff, 1, 2]);
}

/** A page that would act as the console's, if a browser took it for one. */
export function trap(): Response {
  const headers = new Headers({ 'content-type': 'text/html', location: '/console/', 'x-hostile': encodeURIComponent(HOSTILE) });
  headers.append('set-cookie', 'capstan_session=planted; Path=/console');
  headers.append('clear-site-data', '"cookies"');
  headers.append('refresh', '0; url=https://evil.example/');
  return new Response(`<!doctype html><title>trap</title>${HOSTILE}`, { status: 302, headers });
}
