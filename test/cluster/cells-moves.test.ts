/** An account moves between cells under load: callers wait, and no two owners act for it. */
import test, { type ExecutionContext } from 'ava';
import { Client } from 'pg';

import { readConfig } from '../../gateway/config.ts';
import { start as startGateway } from '../../gateway/assembly/start.ts';
import type { CapstanError } from '../../lib/errors.ts';
import { BulkAction, CreateKeyRequest, KeyScope, type CreateAccountResponse } from '../../proto/gen/capstan/v1/control.ts';
import { folderOf } from '../support/folder.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';
import { copyOfSecrets } from '../support/schedulers.ts';
import { lines } from '../support/several-schedulers.ts';
import { until } from '../support/until.ts';

await withPostgres('an account moves between cells', tests);

interface Two {
  readonly store: string;
  readonly east: TestScheduler;
  readonly west: TestScheduler;
  readonly operator: string;
  /** Key of the account `acme`, which begins in `default`, and its endpoint. */
  readonly key: string;
  readonly endpoint: string;
}

function tests(server: PostgresServer): void {
  /** The cells `default` and `west`, with an idle account. */
  async function two(t: ExecutionContext): Promise<Two> {
    const store = await server.newDatabase();
    const shared = {
      store,
      blobDir: await folderOf(t),
      isBlobDirShared: 'true',
      runRetentionMs: 1_000,
      rateLimits: 'requests=0/0,run=0/0,status=0/0,cancel=0/0',
    };
    const east = await TestScheduler.open(shared);
    t.teardown(() => east.close());
    const operator = east.secret('api-key');
    await unary((done) => east.control.createCell({ name: 'west' }, east.bearer(operator), done));
    const west = await TestScheduler.open({ ...shared, cell: 'west', dataDir: await copyOfSecrets(t, east.dataDir) });
    t.teardown(() => west.close());
    const account = await unary<CreateAccountResponse>((done) =>
      east.control.createAccount({ id: 'acme', workerQuota: 0 }, east.bearer(operator), done),
    );
    const { endpoints } = await east.deploy([{ name: 'echo', workersMin: 0, workersMax: 0 }], { token: account.keyText });
    return { store, east, west, operator, key: account.keyText, endpoint: endpoints[0]?.id ?? '' };
  }

  const move = ({ operator }: Two, from: TestScheduler, to: string): Promise<unknown> =>
    unary((done) => from.control.moveAccount({ id: 'acme', cell: to }, from.bearer(operator), done));
  const ask = (scheduler: TestScheduler, token: string): Promise<unknown> =>
    unary((done) => scheduler.control.listEndpoints({ environment: '' }, scheduler.bearer(token), done));
  const codeOf = (call: Promise<unknown>): Promise<string> =>
    call.then(
      () => 'OK',
      (error: CapstanError) => error.code,
    );

  test('no owner acts for an account from before it may be moved until the other one knows it', async (t) => {
    const world = await two(t);
    const { store, east, west, key, operator } = world;
    const client = new Client({ connectionString: store });
    await client.connect();
    t.teardown(() => client.end());
    const isWaiting = `SELECT FROM pg_stat_activity WHERE application_name LIKE '%move' AND wait_event_type = 'Lock' AND datname = current_database()`;
    /** Responses received while the move could happen at any moment; none if it gave up before, as it may on a busy host. */
    const answersMeanwhile = async (): Promise<readonly string[] | null> => {
      await client.query('BEGIN');
      await client.query('SELECT FROM capstan.cells WHERE cell = 1 FOR UPDATE');
      let isOver = false;
      const moved = codeOf(move(world, east, 'west')).finally(() => (isOver = true));
      await until('the move waits', async () => isOver || (await server.query(store, isWaiting)).length > 0);
      const answers = await Promise.all([ask(east, key), ask(east, operator), ask(west, key)].map(codeOf));
      await client.query('COMMIT');
      const outcome = await moved;
      t.true(['OK', 'CONFLICT'].includes(outcome), outcome);
      return outcome === 'OK' ? answers : null;
    };
    const [fromKey, fromOperator, fromWest] = await until('the move is made while it is asked', answersMeanwhile);
    t.is(fromKey, 'NOT_OWNER');
    t.is(fromOperator, 'NOT_OWNER', 'nobody else is answered from a state that may be the former one');
    t.not(fromWest, 'OK');
    const isServed: string[] = [];
    await until('the account is served', async () => {
      const [there, here] = await Promise.all([codeOf(ask(west, key)), codeOf(ask(east, key))]);
      isServed.push(here);
      return there === 'OK';
    });
    t.false(isServed.includes('OK'), 'the owner of before never again');
    await until('the cell it left serves', async () => (await codeOf(ask(east, operator))) === 'OK');
    t.is(await codeOf(ask(east, key)), 'UNAUTHENTICATED');
  });

  test('a refused move leaves the cell as it was', async (t) => {
    const world = await two(t);
    const { store, east, key } = world;
    const client = new Client({ connectionString: store });
    await client.connect();
    t.teardown(() => client.end());
    await client.query('BEGIN');
    await client.query('SELECT FROM capstan.cells WHERE cell = 1 FOR UPDATE');
    await t.throwsAsync(move(world, east, 'west'), { code: 'CONFLICT', message: 'cell: it is busy; try again' });
    await client.query('ROLLBACK');
    await until('the account is served again', async () => (await codeOf(ask(east, key))) === 'OK');
    const moves = async () => (await east.audited()).filter(({ action }) => action === 'moveAccount').length;
    t.is(await moves(), 0, 'nor has the audit log an entry');
    await move(world, east, 'west');
    t.is(await until('the cell it left serves', () => moves().catch(() => null)), 1);
  });

  test('no text of a caller makes an entry that the database refuses', async (t) => {
    const world = await two(t);
    const { east, key, endpoint } = world;
    for (const text of ['a\0b', `${'a'.repeat(499)}\u{1F600}`]) {
      const request = { endpointId: endpoint, action: BulkAction.PURGE, filter: { states: [], sinceMs: 0n, untilMs: 0n, text } };
      await until(
        'it is taken',
        async () => (await codeOf(unary((done) => east.control.startBulkOperation(request, east.bearer(key), done)))) === 'OK',
      );
    }
    const [cut, nul] = await east.audited(key);
    const request = CreateKeyRequest.fromPartial({ name: 'c\0i', scope: KeyScope.READ_ONLY });
    t.is(await codeOf(unary((done) => east.control.createKey(request, east.bearer(key), done))), 'INVALID_ARGUMENT');
    await move(world, east, 'west');
    t.true(nul?.afterJson.includes('a\u{FFFD}b'), nul?.afterJson);
    t.true(cut?.afterJson.includes(`${'a'.repeat(499)}\u{FFFD}…`), cut?.afterJson);
  });

  test('a gateway that does not list the schedulers of a cell says so', async (t) => {
    const { east } = await two(t);
    const { log, until: logged } = lines();
    const settings = { port: 0, scheduler: east.handle.address, token: east.secret('gateway-token'), closeGraceMs: 0 };
    const gateway = await startGateway(readConfig(settings, {}), { log });
    t.teardown(() => gateway.close());
    await logged('"cell":"west"');
    await logged('CAPSTAN_SCHEDULER of this gateway must list the schedulers of all cells');
    t.pass();
  });

  test('callers wait while an account moves: no 401, no 404, no error', async (t) => {
    const world = await two(t);
    const { east, west, key, endpoint } = world;
    const settings = {
      port: 0,
      scheduler: `${east.handle.address},${west.handle.address}`,
      token: east.secret('gateway-token'),
      graphqlPerSecond: 100_000,
      logLevel: 'silent',
      closeGraceMs: 0,
    };
    const gateway = await startGateway(readConfig(settings, {}));
    t.teardown(() => gateway.close());
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const wrong: string[] = [];
    const call = async (what: string, path: string, body?: unknown): Promise<Record<string, unknown>> => {
      const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
      const response = await fetch(`${gateway.url}${path}`, { headers, ...init });
      const text = await response.text();
      if (response.status !== 200 || text.includes('"errors"')) wrong.push(`${what}: ${response.status} ${text}`);
      return JSON.parse(text) as Record<string, unknown>;
    };
    const reads = {
      health: () => call('health', `/v2/${endpoint}/health`),
      requests: () => call('requests', `/v2/${endpoint}/requests`),
      graphql: () => call('graphql', '/graphql', { query: '{ endpoints { id } }' }),
    };
    await until('the gateway knows both cells', async () => {
      const response = await fetch(`${gateway.url}/v2/nothing/health`, { headers });
      return response.status === 404;
    });
    const stop = new AbortController();
    const counts: Record<string, number> = {};
    const load = Promise.all(
      Object.entries(reads).map(async ([name, read]) => {
        while (!stop.signal.aborted) {
          await read();
          counts[name] = (counts[name] ?? 0) + 1;
        }
      }),
    );
    for (const [from, to] of [
      [east, 'west'],
      [west, 'default'],
      [east, 'west'],
    ] as const) {
      await until('it is idle', () =>
        move(world, from, to).then(
          () => true,
          (error: CapstanError) => {
            if (error.code === 'CONFLICT' || error.code === 'NOT_OWNER' || error.code === 'UNAVAILABLE') return false;
            throw error;
          },
        ),
      );
      // At once, while the owners read their states.
      const { id } = await call('run', `/v2/${endpoint}/run`, { input: {} });
      await call('status', `/v2/${endpoint}/status/${String(id)}`);
      await call('cancel', `/v2/${endpoint}/cancel/${String(id)}`, {});
    }
    stop.abort();
    await load;
    t.deepEqual(wrong, []);
    for (const name of Object.keys(reads)) t.true((counts[name] ?? 0) >= 3, `${name}: ${counts[name] ?? 0}`);
  });
}
