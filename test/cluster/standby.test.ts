/** A standby listens, answers health, and refuses the rest before it looks at credentials; the owner hands over in good order. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { status as grpc, type Metadata, type ServiceError } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { JobReply, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import { folderOf } from '../support/folder.ts';
import { healthClient, healthOf, type HealthClient } from '../support/grpc-health.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { TestScheduler } from '../support/scheduler-client.ts';
import { copyOfSecrets, schedulersOn, statusOf } from '../support/schedulers.ts';

await withPostgres('standby', tests);

function tests(server: PostgresServer): void {
  test('a standby asked with valid credentials says NOT_OWNER and where the owner is, and never UNAUTHENTICATED', async (t) => {
    const { owner, standby: another } = await schedulersOn(t, server);
    const node = await owner.join('gpu-1');
    const standby = await another();
    t.deepEqual(standby.handle.status, { kind: 'standby', owner: owner.handle.address });
    const token = owner.secret('gateway-token');
    const calls: Record<string, (metadata: Metadata) => Promise<ServiceError>> = {
      'a session of a node': (metadata) => endOf(standby.nodes.session(metadata)),
      'a session of a gateway': (metadata) => endOf(standby.gateways.session(metadata)),
      'a job channel': (metadata) => endOf(standby.jobs.channel(metadata)),
      'a directory': (metadata) => endOf(standby.control.watchDirectory({}, metadata)),
      'a join': (metadata) =>
        new Promise((resolve) => {
          standby.nodes.join({ joinToken: owner.secret('join-token'), name: 'gpu-2' }, metadata, (error) => resolve(error as ServiceError));
        }),
    };
    const credentials = {
      node: node.credentials,
      gateway: owner.bearer(token),
      key: owner.bearer(owner.secret('api-key')),
      nonsense: owner.bearer('nonsense', 'nobody'),
    };
    for (const [name, call] of Object.entries(calls)) {
      for (const [who, metadata] of Object.entries(credentials)) {
        const error = await call(metadata);
        t.is(error.code, grpc.UNAVAILABLE, `${name} as ${who}`);
        t.deepEqual(error.metadata.get('capstan-error'), ['NOT_OWNER'], `${name} as ${who}`);
        t.deepEqual(error.metadata.get('capstan-owner'), [owner.handle.address], `${name} as ${who}`);
      }
    }
    t.like(fromServiceError(await endOf(standby.nodes.session(node.credentials))), { code: 'NOT_OWNER', owner: owner.handle.address });
  });

  test('health is SERVING on the owner and NOT_SERVING on a standby, of the server and its services, and watchers hear of a change', async (t) => {
    const { owner, standby: another } = await schedulersOn(t, server);
    const standby = await another();
    const [ofOwner, ofStandby] = [healthOn(t, owner), healthOn(t, standby)];
    for (const service of ['', 'capstan.v1.JobService', 'capstan.v1.NodeService', 'capstan.v1.ControlService']) {
      t.is(await healthOf(ofOwner, service), 'SERVING', service);
      t.is(await healthOf(ofStandby, service), 'NOT_SERVING', service);
    }
    const watch = ofStandby.Watch({ service: '' });
    watch.on('error', () => undefined);
    const heard = watch[Symbol.asyncIterator]() as AsyncIterator<{ status: string }>;
    t.like(await heard.next(), { value: { status: 'NOT_SERVING' } });
    await owner.handle.close();
    t.like(await heard.next(), { value: { status: 'SERVING' } });
    watch.cancel();
  });

  test('a graceful stop answers what was accepted, and ends streams with the address of the scheduler that serves', async (t) => {
    const { owner, standby: another } = await schedulersOn(t, server);
    const standby = await another();
    const { endpoints } = await owner.deploy([{ name: 'echo' }]);
    const endpoint = endpoints[0]?.id ?? '';
    const call = owner.jobs.channel(owner.bearer(owner.secret('gateway-token')));
    const answered = new Set<string>();
    call.on('data', ({ replies }: { replies: JobReply[] }) => {
      for (const { result } of replies) if (result?.$case === 'job') answered.add(result.value.id);
    });
    const ended = endOf(call);
    const term = new Promise<string>((resolve) =>
      call.once('metadata', (metadata: Metadata) => resolve(String(metadata.get('capstan-term')[0]))),
    );
    const ids = Array.from({ length: 500 }, (_, i) => `job-${i}`);
    for (const [i, jobId] of ids.entries())
      call.write({ requests: [{ requestId: i + 1, endpointId: endpoint, limitedAs: '', resent: false, operation: submit(jobId) }] });
    const firstTerm = BigInt(await term);

    await owner.handle.close();
    const error = await ended;
    t.is(fromServiceError(error).code, 'NOT_OWNER');
    t.is(fromServiceError(error).owner, standby.handle.address);
    const next = await statusOf(standby, 'owner');
    t.true(next.kind === 'owner' && next.term > firstTerm, 'under a higher term');
    const channel = standby.channel();
    t.true(answered.size > 0);
    for (const jobId of answered)
      t.is(stateOf(await channel.ask(endpoint, { $case: 'get', value: { jobId, waitMs: 0 } })), JobState.IN_QUEUE, jobId);
    const rest = ids.filter((jobId) => !answered.has(jobId));
    for (const jobId of rest) t.is(stateOf(await channel.ask(endpoint, submit(jobId), true)), JobState.IN_QUEUE, jobId);
  });

  test('a scheduler that lost its cell answers nothing from its old state, follows the new owner, and can take over again', async (t) => {
    const { store, owner, standby: another } = await schedulersOn(t, server);
    const standby = await another();
    const key = owner.secret('api-key');
    await server.query(store, END_OWNER);
    await statusOf(standby, 'owner');
    await statusOf(owner, 'standby', (status) => 'owner' in status);
    const refusal = await new Promise<ServiceError | null>((resolve) =>
      owner.control.listEndpoints({ environment: '' }, owner.bearer(key), resolve),
    );
    t.like(fromServiceError(refusal), { code: 'NOT_OWNER', owner: standby.handle.address });
    await standby.deploy([{ name: 'made-later' }]);
    await standby.handle.close();
    await statusOf(owner, 'owner');
    const listed = await new Promise<string[]>((resolve, reject) =>
      owner.control.listEndpoints({ environment: '' }, owner.bearer(key), (error, reply) =>
        error === null ? resolve(reply.endpoints.map(({ spec }) => spec?.name ?? '')) : reject(error),
      ),
    );
    t.deepEqual(listed, ['made-later'], 'the state is that of the database');
  });

  test('a standby that may not own the queue gives way to one behind it', async (t) => {
    const { store, owner, standby: another } = await schedulersOn(t, server);
    const foreign = await copyOfSecrets(t, owner.dataDir);
    await writeFile(join(foreign, 'secrets', 'master-key'), `${'ab'.repeat(32)}\n`);
    const without = await another({ dataDir: foreign });
    const waiting = await server.query(store, CONNECTIONS);
    const standby = await another();
    await owner.handle.close();
    await statusOf(standby, 'owner');
    t.is(without.handle.status.kind, 'standby');
    const left = new Set((await server.query(store, CONNECTIONS)).map(({ pid }) => pid));
    t.is(waiting.filter(({ pid }) => left.has(pid)).length, 1, 'nobody had to end its connection');
  });

  test('the address that others are told is the one advertised', async (t) => {
    const { standby: another } = await schedulersOn(t, server, { advertise: 'capstan-1.example:7070' });
    t.deepEqual((await another({ advertise: 'capstan-2.example:7070' })).handle.status, {
      kind: 'standby',
      owner: 'capstan-1.example:7070',
    });
    for (const advertise of ['capstan-1.example', 'http://capstan-1.example:7070', 'a b:1', 'host:70000', ':7070']) {
      const open = TestScheduler.open({ advertise, dataDir: await folderOf(t) });
      await t.throwsAsync<CapstanError>(open, { instanceOf: CapstanError, message: /^CAPSTAN_ADVERTISE: must / }, advertise);
    }
  });

  test('a second scheduler on one data folder is refused, and the folder is free again when the first ended', async (t) => {
    const { owner, standby: another } = await schedulersOn(t, server);
    const dataDir = owner.dataDir;
    const error = await t.throwsAsync<CapstanError>(another({ dataDir }), { code: 'DATA_DIR' });
    t.is(error?.field, 'CAPSTAN_DATA_DIR');
    t.true(error?.message.includes(`the scheduler with process id ${process.pid} is using it`), error?.message);
    await owner.restart();
    t.is(owner.handle.status.kind, 'owner');
  });

  test('a port in use is refused before a scheduler stands by', async (t) => {
    const { owner, standby: another } = await schedulersOn(t, server);
    await t.throwsAsync(another({ port: owner.handle.address.split(':').at(-1) }), { code: 'ADDRESS_IN_USE' });
  });
}

/** Connections that commit, or wait for their turn. */
const CONNECTIONS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'capstan cell %'";

/** Ends the connection that commits, as a broken network does. */
const END_OWNER = `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

function healthOn(t: ExecutionContext, { handle }: TestScheduler): HealthClient {
  const client = healthClient(handle.address);
  t.teardown(() => client.close());
  return client;
}

/** The error that ends a stream. */
function endOf(call: { on(event: 'error', listener: (error: ServiceError) => void): unknown; resume(): unknown }): Promise<ServiceError> {
  return new Promise((resolve) => {
    call.on('error', resolve);
    call.resume();
  });
}

function submit(jobId: string): { $case: 'submit'; value: Submit } {
  const input = { body: { $case: 'inline', value: Buffer.from('{"n":1}') } } as const;
  return {
    $case: 'submit',
    value: { jobId, kind: JobKind.RUN, input, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0 },
  };
}

const stateOf = ({ result }: JobReply): JobState | null => (result?.$case === 'job' ? result.value.state : null);
