/** Routes of the tests of load-balanced endpoints. */
import { appendFileSync, existsSync } from 'node:fs';

export function health(): object {
  return { status: 'ok' };
}

export function hello({ name, times = 1 }: { name: string; times?: number }): object {
  return { hello: name, times };
}

export function item(id: number, verbose = false): object {
  return { id, verbose };
}

export function search(q: string, tags: string[] = []): object {
  return { q, tags };
}

/** From the headers alone; the body stays unread. */
export const early = (_request: Request): Response => new Response('too large', { status: 413 });

export function echo(request: Request): Response {
  const headers = { 'content-type': request.headers.get('content-type') ?? '', 'x-method': request.method };
  return new Response(request.body, { status: 201, headers });
}

export function* count(to: number): Generator<object> {
  for (let n = 1; n <= to; n += 1) yield { n };
}

/** Says in the file how far it came; ends when nobody listens. */
export async function* endless(file: string): AsyncGenerator<string> {
  try {
    for (;;) yield 'x'.repeat(64 * 1024);
  } finally {
    appendFileSync(file, 'ended');
  }
}

export function boom(): never {
  throw new Error('it broke');
}

export function teapot(): never {
  // oxlint-disable-next-line typescript/only-throw-error -- an answer may be thrown, too
  throw Response.json({ short: true }, { status: 418, headers: { 'x-pot': 'tea' } });
}

export function bytes(): Uint8Array {
  return Buffer.from([0, 1, 2, 255]);
}

export function headers(request: Request): object {
  return { url: request.url, ...Object.fromEntries(request.headers) };
}

/** Tells the file that it was entered, and whether its caller went away before it was done. */
export async function park(ms: number, file: string, context: { readonly signal: AbortSignal }): Promise<object> {
  appendFileSync(file, 'entered\n');
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    context.signal.addEventListener('abort', () => {
      clearTimeout(timer);
      appendFileSync(file, 'aborted\n');
      resolve();
    });
  });
  return { parked: ms };
}

/** Computes until the file is there, and says whether it came. */
export function busy(file: string): object {
  const end = performance.now() + 20_000;
  const nobody = new Int32Array(new SharedArrayBuffer(4));
  while (!existsSync(file) && performance.now() < end) Atomics.wait(nobody, 0, 0, 5);
  return { came: existsSync(file) };
}
