/** Functions that try what a hostile tenant tries with a page that shows their texts. */

/** Names may have it: it is printable. */
export const MARKUP = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>${7*7}';
export const HOSTILE = `${MARKUP}\u202e\u001b[31m`;

/** Returns its input beside a hostile text, and prints one. */
export function hostile(input: Record<string, unknown>): object {
  console.log(`line ${HOSTILE}`);
  console.error(JSON.stringify({ level: 'error', message: `json ${HOSTILE}` }));
  return { [HOSTILE]: HOSTILE, input };
}

export function failing(): never {
  throw new Error(`refused: ${HOSTILE}`);
}

export async function* words({ text = 'a b c' }: { text?: string }): AsyncGenerator<string> {
  for (const word of text.split(' ')) yield word;
}

/** Waits until it is cancelled, or a minute. */
export async function slow(): Promise<string> {
  await new Promise((done) => setTimeout(done, 60_000));
  return 'done';
}

/** 5 MB. */
export function large(): string {
  return 'x'.repeat(5_000_000);
}

/** Ends its worker with each attempt. */
export async function lost(): Promise<never> {
  console.log('on its way');
  // What was printed leaves the worker first.
  await new Promise((done) => setTimeout(done, 500));
  process.kill(process.pid, 'SIGKILL');
  return new Promise<never>(() => undefined);
}
