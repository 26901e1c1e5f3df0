/**
 * Who may make which gRPC call of the scheduler (docs/borders-grpc.md, Credentials over gRPC): every
 * method with every kind of credential, and what one account can learn or change of another.
 */
import { Client, credentials, Metadata, status, type ClientReadableStream, type MethodDefinition, type ServiceError } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';

import { BlobServiceService } from '../../proto/gen/capstan/v1/blobs.ts';
import * as control from '../../proto/gen/capstan/v1/control.ts';
import { GatewayServiceService } from '../../proto/gen/capstan/v1/invoke.ts';
import { JobServiceService } from '../../proto/gen/capstan/v1/jobs.ts';
import { NodeServiceService, type WorkerSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';

const services = {
  JobServiceService,
  ControlServiceService: control.ControlServiceService,
  BlobServiceService,
  NodeServiceService,
  GatewayServiceService,
};
type Method = MethodDefinition<unknown, unknown>;

/** Kinds of callers, from the least to the most powerful of each side. */
const callers = [
  'nobody',
  'forged',
  'worker',
  'endpoints key',
  'environment key',
  'read-only key',
  'all key',
  'team',
  'operator',
  'node',
  'gateway',
] as const;
type Caller = (typeof callers)[number];

const gateway: readonly Caller[] = ['gateway'];
/** Owners of an account: `all key` is one of the account `default`, `team` one of another account. */
const owners: readonly Caller[] = ['all key', 'team', 'operator'];
const operators: readonly Caller[] = ['operator'];
/** Whoever may read all of an account. */
const wholeReaders: readonly Caller[] = ['read-only key', ...owners];
/** Whoever has a key. */
const keys: readonly Caller[] = ['endpoints key', 'environment key', ...wholeReaders];
/** Whoever has a key, or a worker's token. */
const readers: readonly Caller[] = ['worker', ...keys];

/** Whom each method lets in; the others are refused before anything else is looked at. */
const table: Readonly<Record<string, readonly Caller[]>> = {
  'JobService/Channel': gateway,
  'JobService/Cancel': gateway,
  'JobService/Retry': gateway,
  'JobService/PurgeQueue': gateway,
  'JobService/ListJobs': gateway,
  'JobService/GetHealth': gateway,
  'ControlService/WatchDirectory': gateway,
  'ControlService/LookupKey': gateway,
  'ControlService/LookupEndpoint': gateway,
  'ControlService/LookupEndpointName': gateway,
  'ControlService/NoteKeyUse': gateway,
  'ControlService/GetMetrics': gateway,
  'ControlService/Deploy': owners,
  'ControlService/UpdateEndpoint': owners,
  'ControlService/StartWorker': owners,
  'ControlService/Undeploy': owners,
  'ControlService/Rollback': owners,
  'ControlService/CreateEnvironment': owners,
  'ControlService/DeleteEnvironment': owners,
  'ControlService/CreateKey': owners,
  'ControlService/RevokeKey': owners,
  'ControlService/CreateSession': keys,
  'ControlService/GetSession': keys,
  // It takes the token of a session only (test/integration/console-sessions.test.ts).
  'ControlService/EndSession': [],
  'ControlService/RedeliverWebhook': owners,
  'ControlService/GetWebhookSecret': owners,
  'ControlService/RotateWebhookSecret': owners,
  'ControlService/SetSecret': owners,
  'ControlService/DeleteSecret': owners,
  'ControlService/AddAlertChannel': owners,
  'ControlService/RemoveAlertChannel': owners,
  'ControlService/TestAlertChannel': owners,
  'ControlService/ListEndpoints': readers,
  'ControlService/GetEndpoint': readers,
  'ControlService/ListWorkers': readers,
  'ControlService/GetHistory': readers,
  'ControlService/GetDeviceHistory': operators,
  'ControlService/CountJobs': owners,
  'ControlService/StartBulkOperation': owners,
  'ControlService/ListBulkOperations': owners,
  'ControlService/StopBulkOperation': owners,
  'ControlService/SearchJobs': readers,
  'ControlService/SummarizeJobs': readers,
  'ControlService/ListActivity': readers,
  'ControlService/GetJob': readers,
  'ControlService/ListAttention': wholeReaders,
  'ControlService/ListEnvironments': readers,
  'ControlService/ListBuilds': wholeReaders,
  'ControlService/ListDeployments': wholeReaders,
  'ControlService/ListKeys': wholeReaders,
  'ControlService/ListAudit': owners,
  'ControlService/ListSecrets': wholeReaders,
  'ControlService/ListAlertChannels': wholeReaders,
  'ControlService/GetAccount': wholeReaders,
  'ControlService/ListNodes': wholeReaders,
  'ControlService/ListMachineTypes': wholeReaders,
  'ControlService/GetLogs': wholeReaders,
  'ControlService/ListWebhooks': owners,
  'ControlService/CreateCell': operators,
  'ControlService/ListCells': [...operators, 'gateway'],
  'ControlService/MoveAccount': operators,
  'ControlService/AssignNode': operators,
  'ControlService/CreateAccount': operators,
  'ControlService/ListAccounts': operators,
  'ControlService/UpdateAccount': operators,
  'ControlService/DeleteAccount': operators,
  'ControlService/CreateJoinToken': operators,
  'ControlService/ListJoinTokens': operators,
  'ControlService/RevokeJoinToken': operators,
  'ControlService/DrainNode': operators,
  'ControlService/ResumeNode': operators,
  'ControlService/RemoveNode': operators,
  'ControlService/SnapshotQueue': operators,
  'ControlService/GetMasterKey': operators,
  'ControlService/RotateMasterKey': operators,
  'ControlService/PrepareMasterKey': operators,
  'BlobService/Put': [...owners, 'node', 'gateway'],
  'BlobService/Get': [...owners, 'node', 'gateway'],
  'BlobService/Stat': [...owners, 'node', 'gateway'],
  // Its token is in the message, and an empty one is nobody's.
  'NodeService/Join': [],
  'NodeService/Session': ['node'],
  'GatewayService/Session': gateway,
};

/** Its only field says that it has more bytes than there are. */
const UNDECODABLE = Buffer.from([0x0a, 0xff, 0xff, 0xff, 0x7f, 0x00]);

/** Requests that would change something when they are let in with nothing in them. */
const harmless: Readonly<Record<string, object>> = {
  'ControlService/Undeploy': { environment: 'none', endpoints: [], stopJobs: false },
};

async function open(t: ExecutionContext) {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const client = new Client(scheduler.handle.address, credentials.createInsecure());
  t.teardown(() => client.close());
  const owner = scheduler.bearer(scheduler.secret('api-key'));
  const createKey = async (scope: control.KeyScope, more: Partial<control.CreateKeyRequest> = {}, by = owner): Promise<string> => {
    const request = control.CreateKeyRequest.fromPartial({ name: 'made', scope, ...more });
    return (await unary<control.CreateKeyResponse>((done) => scheduler.control.createKey(request, by, done))).text;
  };
  const createAccount = async (id: string): Promise<string> =>
    (await unary<control.CreateAccountResponse>((done) => scheduler.control.createAccount({ id, workerQuota: 5 }, owner, done))).keyText;
  return { scheduler, client, owner, createKey, createAccount };
}

/** How a call ended; streams get one empty message and their end. */
function codeOf(
  client: Client,
  { path, requestStream, responseStream, requestSerialize, responseDeserialize }: Method,
  request: unknown,
  metadata: Metadata,
) {
  return new Promise<number>((resolve) => {
    const answered = (error: ServiceError | null): void => resolve(error?.code ?? status.OK);
    if (!responseStream) {
      if (!requestStream) client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, metadata, answered);
      else {
        const call = client.makeClientStreamRequest(path, requestSerialize, responseDeserialize, metadata, answered);
        call.on('error', () => undefined);
        call.end(request);
      }
      return;
    }
    const watch = (call: ClientReadableStream<unknown>): void => {
      call.on('error', answered);
      call.on('end', () => answered(null));
      call.on('data', () => {
        answered(null);
        call.cancel();
      });
    };
    if (!requestStream) watch(client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request, metadata));
    else {
      const call = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, metadata);
      watch(call);
      call.end(request);
    }
  });
}

test('every gRPC method lets in whom the table says, and refuses all others', async (t) => {
  const { scheduler, client, createKey, createAccount } = await open(t);
  await scheduler.deploy([{ name: 'echo', workersMin: 1 }]);
  const node = await scheduler.join('host');
  const session = node.session();
  let worker: WorkerSpec | undefined;
  while (worker === undefined) [worker] = (await session.take('desired')).workers;
  const shown: Readonly<Record<Caller, Metadata>> = {
    nobody: new Metadata(),
    forged: scheduler.bearer('cap_wrong'),
    worker: scheduler.bearer(worker.token),
    'endpoints key': scheduler.bearer(await createKey(control.KeyScope.ENDPOINTS, { endpoints: ['echo'] })),
    'environment key': scheduler.bearer(await createKey(control.KeyScope.ENVIRONMENT)),
    'read-only key': scheduler.bearer(await createKey(control.KeyScope.READ_ONLY)),
    'all key': scheduler.bearer(await createKey(control.KeyScope.ALL)),
    team: scheduler.bearer(await createAccount('team')),
    operator: scheduler.bearer(scheduler.secret('api-key')),
    node: node.credentials,
    gateway: scheduler.bearer(scheduler.secret('gateway-token')),
  };
  const found: Record<string, readonly Caller[]> = {};
  const unknown = new Set<string>();
  for (const service of Object.values(services)) {
    for (const method of Object.values(service) as unknown as Method[]) {
      const name = method.path.replace(/^\/capstan\.v1\./, '');
      // Refused before the message is decoded: this one cannot be.
      const refused = callers.filter((caller) => table[name]?.includes(caller) === false);
      const undecodable = { ...method, requestSerialize: () => UNDECODABLE };
      const refusals = await Promise.all(refused.map((caller) => codeOf(client, undecodable, undefined, shown[caller])));
      // The credential of Join is its message, and only the token of a session, which looks like a key, is good for EndSession.
      if (!['NodeService/Join', 'ControlService/EndSession'].includes(name))
        for (const [index, caller] of refused.entries())
          t.true([status.UNAUTHENTICATED, status.PERMISSION_DENIED].includes(refusals[index] ?? status.OK), `${name} by ${caller}`);
      const empty = method.requestDeserialize(Buffer.alloc(0));
      const codes = await Promise.all(callers.map((caller) => codeOf(client, method, harmless[name] ?? empty, shown[caller])));
      found[name] = callers.filter(
        (_caller, index) => codes[index] !== status.UNAUTHENTICATED && codes[index] !== status.PERMISSION_DENIED,
      );
      for (const [index, caller] of callers.entries()) if (codes[index] === status.UNAUTHENTICATED) unknown.add(`${name} ${caller}`);
      t.not(codes.includes(status.INTERNAL), true, `${name} met a fault of ours`);
    }
  }
  const sorted = (rows: Readonly<Record<string, readonly Caller[]>>): string[] =>
    Object.entries(rows)
      .map(([name, whom]) => `${name}: ${callers.filter((caller) => whom.includes(caller)).join(', ')}`)
      .toSorted();
  t.deepEqual(sorted(found), sorted(table));
  // Nobody and a forged key are unknown everywhere; all the others are known, and refused as themselves.
  for (const name of Object.keys(table)) {
    t.deepEqual(
      callers.filter((caller) => unknown.has(`${name} ${caller}`)),
      name === 'NodeService/Join' ? [...callers] : ['nobody', 'forged'],
      name,
    );
  }
});

test('an account finds nothing of another by its ids, and lists none of it', async (t) => {
  const { scheduler, createAccount, createKey } = await open(t);
  const { endpoints } = await scheduler.deploy([{ name: 'echo', env: { SECRET: 'value' }, workersMin: 1 }]);
  const endpointId = endpoints[0]?.id ?? '';
  const team = scheduler.bearer(await createAccount('team'));
  const { control: client } = scheduler;
  const keys = await unary<control.ListKeysResponse>((done) =>
    client.listKeys({ account: '' }, scheduler.bearer(scheduler.secret('api-key')), done),
  );
  const first = keys.keys.find(({ name }) => name === 'first key')?.id ?? '';
  const digest = endpoints[0]?.buildDigest ?? '';
  const blind: readonly ((done: (error: ServiceError | null, reply: unknown) => void) => unknown)[] = [
    (done) => client.getEndpoint({ endpointId }, team, done),
    (done) => client.getLogs({ endpointId, workerId: '', limit: 0, afterMs: 0n }, team, done),
    (done) => client.updateEndpoint({ endpointId, patch: undefined }, team, done),
    (done) => client.undeploy({ environment: 'default', endpoints: [endpointId], stopJobs: false, all: false }, team, done),
    (done) => client.rollback({ environment: 'default', endpoint: endpointId, build: digest }, team, done),
    (done) => client.deleteEnvironment({ name: 'default', force: true, stopJobs: true }, team, done),
    (done) => client.listBuilds({ environment: '', endpoint: endpointId }, team, done),
    (done) =>
      client.createKey(
        control.CreateKeyRequest.fromPartial({ name: 'x', scope: control.KeyScope.ENDPOINTS, endpoints: [endpointId] }),
        team,
        done,
      ),
    (done) => client.revokeKey({ id: first, account: '' }, team, done),
  ];
  for (const call of blind) await t.throwsAsync(unary(call), { code: 'NOT_FOUND' });
  const sees = async <Reply>(call: (done: (error: ServiceError | null, reply: Reply) => void) => unknown): Promise<Reply> => unary(call);
  t.deepEqual((await sees<control.ListEndpointsResponse>((done) => client.listEndpoints({ environment: '' }, team, done))).endpoints, []);
  t.deepEqual((await sees<control.ListWorkersResponse>((done) => client.listWorkers({ endpointId }, team, done))).workers, []);
  const session = (await scheduler.join('host')).session();
  await session.bringUp();
  const { machineTypes } = await sees<control.ListMachineTypesResponse>((done) => client.listMachineTypes({}, team, done));
  t.deepEqual(
    machineTypes.map(({ nodes }) => nodes),
    [1],
  );
  t.false(JSON.stringify(machineTypes, (_key, value: unknown) => String(value)).includes('host'));
  // A node is seen by the accounts whose workers run there.
  const nodes = async (metadata: Metadata) =>
    (await sees<control.ListNodesResponse>((done) => client.listNodes({ afterId: '', limit: 0 }, metadata, done))).nodes;
  t.deepEqual(await nodes(team), []);
  t.like(await nodes(scheduler.bearer(await createKey(control.KeyScope.READ_ONLY))), [{ name: 'host', incarnation: '', workers: 1 }]);
  t.deepEqual((await sees<control.ListEnvironmentsResponse>((done) => client.listEnvironments({}, team, done))).environments, []);
  t.deepEqual(
    (await sees<control.ListDeploymentsResponse>((done) => client.listDeployments({ environment: '', limit: 0 }, team, done))).deployments,
    [],
  );
  t.deepEqual(
    (await sees<control.ListWebhooksResponse>((done) => client.listWebhooks({ afterId: '', limit: 0, newestFirst: false }, team, done)))
      .webhooks,
    [],
  );
  t.deepEqual(
    (await sees<control.ListKeysResponse>((done) => client.listKeys({ account: '' }, team, done))).keys.map(({ name }) => name),
    ['first key'],
  );
});

test('only a key with the scope OPERATOR creates or revokes one, and the refusal names the field and the rule', async (t) => {
  const { scheduler, owner, createKey, createAccount } = await open(t);
  const { control: client } = scheduler;
  const { OPERATOR, ALL, READ_ONLY } = control.KeyScope;
  const create = async (key: string, request: Partial<control.CreateKeyRequest>) =>
    unary<control.CreateKeyResponse>((done) =>
      client.createKey(control.CreateKeyRequest.fromPartial({ name: 'more', ...request }), scheduler.bearer(key), done),
    );
  const revoke = async (metadata: Metadata, id: string, account = '') =>
    unary<control.RevokeKeyResponse>((done) => client.revokeKey({ id, account }, metadata, done));
  const all = await createKey(ALL);
  const team = await createAccount('team');
  const first = (await unary<control.ListKeysResponse>((done) => client.listKeys({ account: '' }, owner, done))).keys[0];
  t.like(first, { name: 'first key', scope: OPERATOR });
  for (const key of [all, team])
    await t.throwsAsync(create(key, { scope: OPERATOR }), {
      code: 'PERMISSION_DENIED',
      message: 'scope: a key with the scope OPERATOR can be created only by a key with the scope OPERATOR',
    });
  await t.throwsAsync(create(await createKey(READ_ONLY), { scope: OPERATOR }), { code: 'PERMISSION_DENIED' });
  // The same for a name that exists and for one that does not: the refusal tells no tenant which accounts there are.
  for (const account of ['default', 'other', 'none']) {
    const rule = {
      code: 'PERMISSION_DENIED',
      message: /^account: an account other than that of the key requires a key with the scope OPERATOR$/,
    };
    await t.throwsAsync(create(team, { scope: ALL, account }), rule);
    await t.throwsAsync(revoke(scheduler.bearer(team), 'first key', account), rule);
    await t.throwsAsync(
      unary((done) => client.listKeys({ account }, scheduler.bearer(team), done)),
      rule,
    );
  }
  await t.throwsAsync(
    unary((done) => client.createKey(control.CreateKeyRequest.fromPartial({ name: 'x', scope: OPERATOR, account: 'team' }), owner, done)),
    { code: 'INVALID_ARGUMENT', message: 'scope: OPERATOR is only for keys of the account default' },
  );
  await t.throwsAsync(revoke(scheduler.bearer(all), first?.id ?? ''), {
    code: 'PERMISSION_DENIED',
    message: 'id: a key with the scope OPERATOR can be revoked only by a key with the scope OPERATOR',
  });
  // The last one stays, a key with the scope ALL is no replacement for it; with a second one it may go.
  await t.throwsAsync(revoke(owner, 'first key'), { code: 'CONFLICT', message: /last one with the scope OPERATOR that does not expire/ });
  await createKey(OPERATOR, { expiresInS: 60 });
  await t.throwsAsync(revoke(owner, 'first key'), { code: 'CONFLICT' });
  const second = scheduler.bearer(await createKey(OPERATOR));
  await revoke(owner, 'first key');
  await t.throwsAsync(
    unary((done) => client.listKeys({ account: '' }, owner, done)),
    { code: 'UNAUTHENTICATED' },
  );
  // Operators see to the keys of every account.
  t.like(await unary<control.ListKeysResponse>((done) => client.listKeys({ account: 'team' }, second, done)), {
    keys: [{ name: 'first key', scope: ALL }],
  });
  await createKey(ALL, { account: 'team' }, second);
  await revoke(second, 'first key', 'team');
  await t.throwsAsync(
    unary((done) => client.getAccount({}, scheduler.bearer(team), done)),
    { code: 'UNAUTHENTICATED' },
  );
});
