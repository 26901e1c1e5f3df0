/** What the public clients call. */

interface Context {
  readonly jobId: string;
  readonly attempt: number;
  readonly signal: AbortSignal;
  readonly s3Config: { readonly bucketName: string } | undefined;
  progress(value: unknown): void;
}

/** Gives its input back. */
export function echo(input: unknown): unknown {
  return input;
}

/** Reports that it runs, then waits until it is told to stop. */
export async function slow(input: unknown, context: Context): Promise<never> {
  context.progress({ running: true });
  await new Promise((_resolve, reject) => context.signal.addEventListener('abort', () => reject(new Error('stopped')), { once: true }));
  throw new Error('never reached');
}

/** Fails until its input says how often it was called before. */
export function failing(input: unknown): never {
  throw new Error(`no luck with ${JSON.stringify(input)}`);
}

/** Yields each word of its text. */
export function* words(text: string): Generator<string> {
  yield* text.split(' ');
}

/** Never called: its endpoint has no workers. */
export function parked(input: unknown): unknown {
  return input;
}

/** Behind a limit of one call in ten seconds on its OpenAI route. */
export function* limited(input: unknown): Generator {
  yield { object: 'list', data: [], asked: input };
}
