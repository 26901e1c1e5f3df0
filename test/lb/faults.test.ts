/** Requests that keep coming while workers come and go: none is lost, but one that was alone on a worker that is killed. */
import { cp, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

import test from 'ava';
import { Agent, request } from 'undici';

import { isErrno } from '../../lib/to-error.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { folderOf } from '../support/folder.ts';

const app = join(import.meta.dirname, 'app-faults');
const PER_SECOND = 200;
/** One worker keeps up with so few, however busy the machine is. */
const FEW_PER_SECOND = 20;

/** Sends at a rate, whatever becomes of the answers, and keeps them by status and release. */
class Load {
  readonly answers = new Map<string, number>();
  /** Processes that answered, the one that did last at the end. Those of the beginning may have ended: an idle one goes after a second. */
  readonly workers = new Set<number>();
  /** How long the function takes, ms. */
  #ms = 60;
  readonly #agent = new Agent({ connections: 256, headersTimeout: 150_000 });
  readonly #open = new Set<Promise<void>>();
  readonly #timer: NodeJS.Timeout;
  #sent = 0;
  #perSecond = PER_SECOND;
  /** Requests that were due at `#since`. */
  #due = 0;
  #since = performance.now();

  constructor(stack: Stack, endpoint: string) {
    const url = `${stack.url}/lb/${endpoint}/work?ms=`;
    const headers = { authorization: `Bearer ${stack.apiKey}` };
    this.#timer = setInterval(() => {
      for (const due = this.#dueNow(); this.#sent < due; this.#sent += 1) {
        const sent: Promise<void> = request(`${url}${this.#ms}`, { headers, dispatcher: this.#agent })
          .then(
            async ({ statusCode, body }) =>
              this.#nameOf(statusCode, (await body.json()) as { release?: number; pid?: number; detail?: string }),
            (error: unknown) => String(error),
          )
          .then((answer) => {
            this.answers.set(answer, (this.answers.get(answer) ?? 0) + 1);
            this.#open.delete(sent);
          });
        this.#open.add(sent);
      }
    }, 5);
  }

  #nameOf(status: number, { release, pid, detail }: { release?: number; pid?: number; detail?: string }): string {
    if (pid !== undefined) {
      this.workers.delete(pid);
      this.workers.add(pid);
    }
    return `${status} ${release === undefined ? (detail ?? '') : `release ${release}`}`;
  }

  #dueNow(): number {
    return this.#due + ((performance.now() - this.#since) * this.#perSecond) / 1000;
  }

  /** Sends at this rate from now on, to a function that takes a moment only. */
  quicken(perSecond: number): void {
    this.#due = this.#dueNow();
    this.#since = performance.now();
    this.#perSecond = perSecond;
    this.#ms = 1;
  }

  count(start: string): number {
    let sum = 0;
    for (const [answer, count] of this.answers) if (answer.startsWith(start)) sum += count;
    return sum;
  }

  /** Sends no more; resolves when all are answered. */
  async end(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#open);
    await this.#agent.destroy();
  }

  get all(): number {
    return this.#sent;
  }
}

/** Workers that the endpoint has, those that are about to go included. */
async function workersOf(stack: Stack, endpoint: string): Promise<number> {
  const body = JSON.stringify({ query: 'query ($endpoint: ID) { workers(endpoint: $endpoint) { id } }', variables: { endpoint } });
  const answer = await stack.call('/graphql', { method: 'POST', body });
  const { data } = (await answer.json()) as { data: { workers: unknown[] } };
  return data.workers.length;
}

test('from zero, up, over a change of release, down, through a drain of the agent: no request is lost', async (t) => {
  const stack = await Stack.start();
  t.teardown(() => stack.close());
  const folder = await folderOf(t);
  const id = (await stack.deploy(app)).get('work') ?? '';
  const load = new Load(stack, id);
  try {
    await until('the first answers came', () => load.count('200') > 100);
    // Another release: the old workers go on until one of the new ones serves.
    const copy = join(folder, basename(app));
    await cp(app, copy, { recursive: true });
    const source = await readFile(join(copy, 'work.ts'), 'utf8');
    await writeFile(join(copy, 'work.ts'), source.replace('release: 1', 'release: 2'));
    await stack.deploy(copy);
    await until('the new release answers', () => load.count('200 release 2') > 100);
    await until('three workers serve', async () => (await workersOf(stack, id)) === 3);
    load.quicken(FEW_PER_SECOND);
    await until('one worker is left', async () => (await workersOf(stack, id)) === 1);
    load.quicken(PER_SECOND);
    const before = load.count('200');
    const agent = stack.signal('agent', 'SIGTERM');
    await until(
      'another agent serves',
      () => stack.pid('agent') !== null && stack.pid('agent') !== agent && load.count('200') > before + 200,
    );
  } finally {
    await load.end();
  }
  t.deepEqual([...load.answers.keys()].sort(), ['200 release 1', '200 release 2']);
  t.is(load.count('200'), load.all);
});

test('kill -9 of one of three workers fails a request that was alone on it, and no other', async (t) => {
  const stack = await Stack.start();
  t.teardown(() => stack.close());
  const id = (await stack.deploy(app)).get('work') ?? '';
  const load = new Load(stack, id);
  try {
    await until('three workers have served', () => load.workers.size >= 3);
    const before = load.count('200');
    await until('one that serves is killed', () => [...load.workers].toReversed().some(killed));
    await until('requests go on', () => load.count('200') > before + 400);
  } finally {
    await load.end();
  }
  const failed = load.all - load.count('200');
  t.is(load.count('500'), failed, JSON.stringify([...load.answers]));
  t.true(failed <= 1);
});

/** False when the process had ended by itself. */
function killed(pid: number): boolean {
  try {
    process.kill(pid, 'SIGKILL');
    return true;
  } catch (error) {
    if (!isErrno(error, 'ESRCH')) throw error;
    return false;
  }
}
