/** What the contract suite runs. */
import { createHash } from 'node:crypto';

interface Context {
  readonly jobId: string;
  readonly signal: AbortSignal;
  readonly s3Config: Readonly<Record<string, string>> | undefined;
  progress(value: unknown): void;
}

/** Gives its input back. */
export function echo(input: unknown): unknown {
  return input;
}

export function failing(input: unknown): never {
  throw new Error(`cannot do ${JSON.stringify(input)}`);
}

/** Says that it runs, then waits until it is stopped. */
export async function endless(input: unknown, context: Context): Promise<never> {
  context.progress({ halfway: true });
  await new Promise((_resolve, reject) => context.signal.addEventListener('abort', () => reject(new Error('stopped')), { once: true }));
  throw new Error('never reached');
}

/** Yields `count` numbers, then fails when told to. */
export function* counting(count: number, fails: boolean = false): Generator<number> {
  for (let n = 1; n <= count; n += 1) yield n;
  if (fails) throw new Error('lost count');
}

/** That the credentials and the environment arrived, without showing them; the object itself where the input asks for it. */
export function secrets(input: { readonly show?: boolean }, context: Context): unknown {
  if (input.show === true) return context.s3Config;
  const { accessId, accessSecret, bucketName, endpointUrl, region } = context.s3Config ?? {};
  return { s3: [accessId, accessSecret, bucketName, endpointUrl, region].map(digest), env: digest(process.env['CONTRACT_SECRET']) };
}

function digest(text: string | undefined): string {
  return createHash('sha256')
    .update(text ?? '')
    .digest('hex');
}

/** As many bytes as asked for, at once or as one chunk. */
export function large(input: { readonly bytes: number }): string {
  return 'x'.repeat(input.bytes);
}

export function* largeChunk(bytes: number): Generator<string> {
  yield 'x'.repeat(bytes);
}

let calls = 0;

/** Which call of this worker it was. */
export function ordered(): number {
  calls += 1;
  return calls;
}

/** No workers: its jobs wait. */
export function parked(input: unknown): unknown {
  return input;
}

/** Workers only when asked for. */
export function cold(input: unknown): unknown {
  return input;
}

/** One job at a time, until it is stopped. */
export const single = endless;

// The default limits, with no worker to lift them; an endpoint for each operation.
export const limited_run = parked;
export const limited_status = parked;
export const limited_stream = parked;
export const limited_cancel = parked;
export const limited_purge = parked;
export const limited_requests = parked;
export const limited_runsync = parked;
export const limited_openai = parked;
