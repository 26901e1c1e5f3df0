/** Schedulers that stop one after another under load, behind a gateway: callers see a delay, and nothing else. */
import test, { type ExecutionContext } from 'ava';

import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import type { TestScheduler } from '../support/scheduler-client.ts';
import { schedulersOn, statusOf } from '../support/schedulers.ts';

const CALLERS = 8;
/** Answers that each owner gives before the next one takes over. */
const ANSWERS = 100;

await withPostgres('a handover', tests);

function tests(server: PostgresServer): void {
  test('owners that stop under load hand over without an error: every submission is answered, and recorded once', async (t) => {
    const { store, owner, standby } = await schedulersOn(t, server, { rateLimits: 'run=0/0' });
    const { endpoints } = await owner.deploy([{ name: 'echo' }]);
    const all = [owner, await standby(), await standby()];
    const url = await gatewayOf(t, all);
    const key = owner.secret('api-key');
    const load = submitting(`${url}/v2/${endpoints[0]?.id ?? ''}/run`, key);
    t.teardown(() => load.stop());
    for (let serving: TestScheduler = owner, left = all.slice(1); left.length > 0;) {
      await load.answered(ANSWERS);
      await serving.handle.close();
      const next = await Promise.race(left.map((each) => statusOf(each, 'owner').then(() => each)));
      left = left.filter((each) => each !== next);
      serving = next;
    }
    await load.answered(ANSWERS);
    const { statuses, ids } = await load.stop();
    t.deepEqual([...statuses], [200]);
    t.is(new Set(ids).size, ids.length);
    const stored = await server.query(store, 'SELECT id FROM capstan.jobs');
    t.deepEqual(new Set(stored.map(({ id }) => id)), new Set<unknown>(ids));
    t.is(stored.length, ids.length);
  });
}

/** A gateway that knows all of them; resolves with its base URL once it serves. */
async function gatewayOf(t: ExecutionContext, schedulers: readonly TestScheduler[]): Promise<string> {
  const scheduler = schedulers.map(({ handle }) => handle.address).join(',');
  const token = schedulers[0]?.secret('gateway-token');
  const gateway = await start(readConfig({ port: 0, scheduler, token, logLevel: 'silent', closeGraceMs: 0 }, {}));
  t.teardown(() => gateway.close());
  const headers = { authorization: schedulers[0]?.secret('api-key') ?? '' };
  while ((await fetch(`${gateway.url}/v2/none/health`, { headers })).status === 503);
  return gateway.url;
}

/** Callers that submit one job after another. */
function submitting(url: string, key: string) {
  const statuses = new Set<number>();
  const ids: string[] = [];
  const waiting: { readonly count: number; readonly done: () => void }[] = [];
  const over = new AbortController();
  const submit = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const response = await fetch(url, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: '{"input":{"n":1}}',
      });
      statuses.add(response.status);
      const { id } = (await response.json()) as { readonly id?: string };
      if (id !== undefined) ids.push(id);
      for (const { done } of waiting.filter(({ count }) => ids.length >= count)) done();
    }
  };
  const callers = Array.from({ length: CALLERS }, () => submit());
  return {
    /** Resolves when so many more were answered. */
    answered: (more: number): Promise<void> => new Promise((done) => waiting.push({ count: ids.length + more, done })),
    async stop() {
      over.abort();
      await Promise.all(callers);
      return { statuses, ids };
    },
  };
}
