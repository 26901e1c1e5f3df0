/** Encryption at rest of inputs, outputs, chunks and deliveries: nothing of them is on the disk, and everything is read back. */
import { randomBytes } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { JobKind, JobState, type Payload } from '../../proto/gen/capstan/v1/common.ts';
import type { MasterKeyInfo } from '../../proto/gen/capstan/v1/control.ts';
import { AttemptOutcome } from '../../proto/gen/capstan/v1/nodes.ts';
import { folderOf } from '../support/folder.ts';
import { gatewayOf } from '../support/gateway.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';
import { inline } from './webhook-world.ts';

type Body = NonNullable<Payload['body']>;
const MARK = 'PLAINTEXT-OF-A-CALLER';
const LARGE = Buffer.from(JSON.stringify(`${MARK} `.repeat(5_000)));
/** The webhook has no receiver: its delivery stays stored. */
const WEBHOOK = 'http://127.0.0.1:9/';

/** The node of an earlier life is given up soon: each run has a node of its own. */
const SETTINGS = { webhookAllow: '127.0.0.0/8', nodeGraceMs: '100' };

class World {
  readonly scheduler: TestScheduler;
  readonly endpoint: string;
  #jobs = 0;

  constructor(scheduler: TestScheduler, endpoint: string) {
    this.scheduler = scheduler;
    this.endpoint = endpoint;
  }

  static async open(t: ExecutionContext, encryptPayloads: string): Promise<World> {
    const scheduler = await TestScheduler.open({ encryptPayloads, ...SETTINGS });
    t.teardown(() => scheduler.close());
    const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: 1, maxConcurrency: 10 }]);
    return new World(scheduler, endpoints[0]?.id ?? '');
  }

  /** The same folder with another setting. */
  async reopen(
    t: ExecutionContext,
    encryptPayloads: string,
    change: (dataDir: string) => Promise<void> = async () => undefined,
  ): Promise<World> {
    const copy = join(await folderOf(t), 'data');
    await this.scheduler.restart(async () => {
      await cp(this.scheduler.dataDir, copy, { recursive: true });
      await change(copy);
    });
    const scheduler = await TestScheduler.open({ dataDir: copy, encryptPayloads, ...SETTINGS });
    t.teardown(() => scheduler.close());
    return new World(scheduler, this.endpoint);
  }

  /** Jobs that end with this body as their input and their output, each with a chunk; their ids. */
  async run(bodies: readonly Body[]): Promise<string[]> {
    const { scheduler, endpoint } = this;
    const channel = scheduler.channel();
    const session = (await scheduler.join(`host-${randomBytes(4).toString('hex')}`)).session();
    await session.bringUp();
    const ids: string[] = [];
    for (const body of bodies) {
      const jobId = `job-${randomBytes(4).toString('hex')}-${this.#jobs++}`;
      const value = {
        jobId,
        kind: JobKind.RUN,
        webhook: WEBHOOK,
        idempotencyKey: '',
        bodyHash: Buffer.alloc(0),
        waitMs: 0,
        input: { body },
      };
      await channel.ask(endpoint, { $case: 'submit', value });
      const { token, input } = await session.take('dispatch');
      if (input === undefined) throw new Error('a dispatch without an input');
      const end = {
        jobId,
        token,
        outcome: AttemptOutcome.COMPLETED,
        error: '',
        executionMs: 5,
        agoMs: 0,
        started: true,
        chunks: 1,
        slotHeld: false,
      };
      session.send(
        { $case: 'started', value: { jobId, token, agoMs: 0 } },
        { $case: 'chunk', value: { jobId, token, index: 0, data: { body: inline(`"chunk ${MARK}"`) } } },
        { $case: 'ended', value: { ...end, output: input } },
      );
      await until(`${jobId} has ended`, async () => {
        const { result } = await channel.ask(endpoint, { $case: 'get', value: { jobId, waitMs: 1_000 } });
        return result?.$case === 'job' && result.value.state === JobState.COMPLETED;
      });
      ids.push(jobId);
    }
    session.close();
    return ids;
  }

  async body(): Promise<Body> {
    return { $case: 'blob', value: { id: await this.scheduler.putBody(LARGE), size: LARGE.length } };
  }

  /** Whether the text is anywhere in the data folder. */
  holds(text: string): boolean {
    const files = globSync('**/*', { cwd: this.scheduler.dataDir, withFileTypes: true }).filter((entry) => entry.isFile());
    return files.some((entry) => readFileSync(join(entry.parentPath, entry.name)).includes(text));
  }

  async mustRead(t: ExecutionContext, [small = '', large = '']: readonly string[]): Promise<void> {
    const url = await gatewayOf(t, this.scheduler);
    const headers = { authorization: `Bearer ${this.scheduler.secret('api-key')}` };
    const read = async (path: string): Promise<unknown> => (await fetch(`${url}/v2/${this.endpoint}/${path}`, { headers })).json();
    t.like(await read(`status/${small}`), { status: 'COMPLETED', output: { text: MARK } });
    t.like(await read(`status/${large}`), { status: 'COMPLETED', output: JSON.parse(LARGE.toString()) as string });
    t.like(await read(`stream/${small}`), { stream: [{ output: `chunk ${MARK}` }] });
  }
}

const small = inline(`{"text":"${MARK}"}`);

test('nothing of a payload is on the disk; it is read back, also after a rotation and when the setting is off again', async (t) => {
  const world = await World.open(t, 'true');
  const ids = await world.run([small, await world.body()]);
  t.false(world.holds(MARK), 'while it runs');
  await world.scheduler.restart();
  t.false(world.holds(MARK), 'after a restart');

  const rotated = await unary<MasterKeyInfo>((done) =>
    world.scheduler.control.rotateMasterKey({}, world.scheduler.bearer(world.scheduler.secret('api-key')), done),
  );
  t.truthy(rotated);
  const later = await world.run([small, await world.body()]);
  await world.scheduler.restart();
  t.false(world.holds(MARK), 'after a rotation');

  const off = await world.reopen(t, 'false');
  await off.mustRead(t, ids);
  await off.mustRead(t, later);
  await off.run([small]);
  t.true(off.holds(MARK), 'new ones are not encrypted any more');
});

test('what was stored before encryption was turned on stays readable', async (t) => {
  const world = await World.open(t, 'false');
  const ids = await world.run([small, await world.body()]);
  t.true(world.holds(MARK), 'the test would find it');
  const on = await world.reopen(t, 'true');
  await on.mustRead(t, ids);
  await on.mustRead(t, await on.run([small, await on.body()]));
});

test('a scheduler with another master key does not start, and says which key it needs', async (t) => {
  const world = await World.open(t, 'true');
  await world.run([small]);
  const error = await t.throwsAsync(
    world.reopen(t, 'true', (dataDir) => writeFile(join(dataDir, 'secrets', 'master-key'), `${randomBytes(32).toString('hex')}\n`)),
  );
  t.regex(error.message, /secrets\/master-key: payloads are encrypted with the master key [0-9a-f]{8}, and the folder holds [0-9a-f]{8}/);
});
