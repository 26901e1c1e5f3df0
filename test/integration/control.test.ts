/** The control plane over real gRPC: deployments, environments, builds, rollback, deletion, keys, accounts. */
import test from 'ava';

import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import { DeploymentCause, KeyScope, type DeployResponse, type KeyEntry } from '../../proto/gen/capstan/v1/control.ts';
import { AttemptOutcome, StopReason } from '../../proto/gen/capstan/v1/nodes.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { buildDigest, endpointSpec, unary } from '../support/scheduler-client.ts';
import { open, as, Watch, submit, failure, stateOf, errorOf, ended, bytes } from './control-world.ts';

test('a deployment is recorded; a rollback brings the build before back, with its settings, and can be undone', async (t) => {
  const scheduler = await open(t);
  const control = as(scheduler);
  const first = await scheduler.deploy([{ name: 'echo', workersMax: 1 }, { name: 'other' }], { bytes: bytes('a') });
  const second = await scheduler.deploy([{ name: 'echo', workersMax: 2 }], { bytes: bytes('b') });
  const [a, b] = [first.endpoints[0]?.buildDigest, second.endpoints[0]?.buildDigest];
  t.not(a, b);
  t.deepEqual(
    (await control.deployments()).map(({ number, cause, endpoints }) => [number, cause, endpoints.map(({ name }) => name)]),
    [
      [2, DeploymentCause.DEPLOY, ['echo']],
      [1, DeploymentCause.DEPLOY, ['echo', 'other']],
    ],
  );
  const [back, ...more] = (await control.rollback()).endpoints;
  t.deepEqual([back?.spec?.name, back?.buildDigest, back?.spec?.workersMax, more.length], ['echo', a, 1, 0]);
  t.is(back?.id, first.endpoints[0]?.id);
  const again = await control.rollback();
  t.is(again.endpoints[0]?.buildDigest, b);
  t.is((await control.deployments())[0]?.cause, DeploymentCause.ROLLBACK);
  const given = await control.rollback({ endpoint: 'echo', build: a?.slice(0, 8) ?? '' });
  t.is(given.endpoints[0]?.buildDigest, a);
  await t.throwsAsync(control.rollback({ endpoint: 'other' }), { code: 'CONFLICT', message: /no previous build/ });
  await t.throwsAsync(control.rollback({ build: 'ffffffff' }), { code: 'NOT_FOUND' });
  await t.throwsAsync(control.rollback({ build: 'f' }), { code: 'INVALID_ARGUMENT', message: /6 to 64/ });
  await t.throwsAsync(control.rollback({ environment: 'nowhere' }), { code: 'NOT_FOUND' });
});

test('builds are kept up to the setting for each endpoint, and across a restart', async (t) => {
  const scheduler = await open(t, { buildsKept: 2 });
  for (const name of ['a', 'b', 'c']) await scheduler.deploy([{ name: 'echo' }], { bytes: bytes(name) });
  await scheduler.deploy([{ name: 'other' }], { bytes: bytes('a') });
  const kept = async (): Promise<string[][]> =>
    (await as(scheduler).builds('echo')).map(({ current, functions }) => [...current, ...functions]);
  t.deepEqual(await kept(), [['echo', 'echo.echo'], ['echo.echo']]);
  t.is((await as(scheduler).builds()).length, 3);
  await scheduler.restart();
  t.deepEqual(await kept(), [['echo', 'echo.echo'], ['echo.echo']]);
  t.is((await as(scheduler).rollback({ endpoint: 'echo' })).endpoints.length, 1);
  t.is((await as(scheduler).environments())[0]?.deployment, 5);
});

test('the builds of one endpoint say what a rollback restores, without values of the environment', async (t) => {
  const scheduler = await open(t, { workerQuota: 9 });
  await scheduler.deploy([{ name: 'echo', workersMax: 1, env: { KEPT: 'same', TURNED: 'one', GONE: 'x' } }], { bytes: bytes('a') });
  await scheduler.deploy([{ name: 'echo', workersMax: 3, env: { KEPT: 'same', TURNED: 'two', NEW: 'y' } }], { bytes: bytes('b') });
  const control = as(scheduler);
  const [, first] = await control.builds('echo');
  t.is(first?.settings?.spec?.workersMax, 1);
  t.deepEqual(first?.settings?.spec?.env, {});
  t.deepEqual(first?.settings?.envNames, ['GONE', 'KEPT', 'TURNED']);
  t.deepEqual(first?.settings?.envChanged, ['TURNED']);
  t.true((await control.builds()).every(({ settings }) => settings === undefined));
  await control.rollback({ endpoint: 'echo' });
  const [restored] = await control.endpoints();
  t.is(restored?.spec?.workersMax, 1);
  t.deepEqual((await control.builds('echo')).find(({ current }) => current.length > 0)?.settings?.envChanged, []);
});

test('a deployment keeps the present settings that it is told to keep, and says so, also after a rollback to it', async (t) => {
  const scheduler = await open(t, { workerQuota: 9 });
  const control = as(scheduler);
  const declared = { name: 'echo', workersMax: 1, scalerValue: 4, env: { GONE: 'x', MODE: 'slow' } };
  const [first] = (await scheduler.deploy([declared], { bytes: bytes('a') })).endpoints;
  const limit = { requests: 7, concurrent: 1 };
  const patch = { workersMax: 5, scalerValue: 9, env: { MODE: 'fast', NEW: 'y' }, unsetEnv: ['GONE'], rateLimits: { run: limit } };
  await control.update(first?.id ?? '', patch);
  const keep = [
    { endpoint: 'echo', settings: ['workersMax', 'rateLimits'], env: ['GONE', 'MODE', 'NEW'] },
    { endpoint: 'new', settings: ['workersMax'], env: ['MODE'] },
  ];
  const digest = await scheduler.putBuild(bytes('b'));
  const request = {
    environment: '',
    buildDigest: digest,
    buildSize: 1,
    endpoints: [declared, { name: 'new', workersMax: 2 }].map(endpointSpec),
  };
  const metadata = scheduler.bearer(scheduler.secret('api-key'));
  const deploy = async (kept: typeof keep): Promise<DeployResponse> =>
    unary<DeployResponse>((done) => scheduler.control.deploy({ ...request, keep: kept }, metadata, done));
  const echo = (await deploy(keep)).endpoints.find(({ spec }) => spec?.name === 'echo');
  t.like(echo?.spec, { workersMax: 5, scalerValue: 4, rateLimits: { run: limit } });
  const released = async (): Promise<unknown> => (await control.builds('echo')).find(({ digest: each }) => each === digest)?.settings;
  const kept = { envNames: ['MODE', 'NEW'], envChanged: [], keptSettings: ['workersMax', 'rateLimits'], keptEnv: ['GONE', 'MODE', 'NEW'] };
  t.like(await released(), kept);
  const created = (await control.builds('new'))[0]?.settings;
  t.like(created, { spec: { workersMax: 2 }, keptSettings: [], keptEnv: [] });
  await scheduler.deploy([declared], { bytes: bytes('c') });
  t.is((await control.endpoints()).find(({ spec }) => spec?.name === 'echo')?.spec?.workersMax, 1);
  t.like(await control.rollback({ endpoint: 'echo', build: digest }), { endpoints: [{ spec: { workersMax: 5 } }] });
  await scheduler.restart();
  t.like(await released(), kept);
  const refused: readonly (readonly [(typeof keep)[number][], RegExp])[] = [
    [[{ endpoint: 'other', settings: [], env: [] }], /keep\.endpoint: "other" must be an endpoint of the deployment/],
    [[0, 1].map(() => ({ endpoint: 'echo', settings: [], env: [] })), /keep\.endpoint: "echo" is listed twice/],
    [[{ endpoint: 'echo', settings: ['gpuIds'], env: [] }], /keep\.settings: "gpuIds" must be one of description, workersMin/],
  ];
  for (const [wrong, message] of refused) await t.throwsAsync(deploy(wrong), { code: 'INVALID_ARGUMENT', message });
});

test('two deployments at once are two whole deployments', async (t) => {
  const scheduler = await open(t);
  const names = ['one', 'two', 'three'];
  await Promise.all(
    ['a', 'b'].map((build) =>
      scheduler.deploy(
        names.map((name) => ({ name })),
        { bytes: bytes(build) },
      ),
    ),
  );
  const endpoints = await as(scheduler).endpoints();
  t.deepEqual(
    endpoints.map(({ spec }) => spec?.name),
    names.toSorted(),
  );
  t.is(new Set(endpoints.map(({ buildDigest: digest }) => digest)).size, 1);
  t.is((await as(scheduler).deployments()).length, 2);
});

test('what the quota or a rule refuses changes nothing at all', async (t) => {
  const scheduler = await open(t, { workerQuota: 4 });
  const control = as(scheduler);
  await scheduler.deploy([{ name: 'echo', workersMax: 2 }], { bytes: bytes('a') });
  const before = [await control.endpoints(), await control.builds(), await control.environments(), await control.deployments()];
  const refused = [
    [
      { name: 'echo', workersMax: 1 },
      { name: 'more', workersMax: 4 },
    ],
    [{ name: 'echo', workersMax: 1 }, { name: 'bad name' }],
    [{ name: 'echo', workersMax: 1 }, { name: 'same' }, { name: 'same' }],
  ];
  for (const endpoints of refused) await t.throwsAsync(scheduler.deploy(endpoints, { environment: '', bytes: bytes('b') }));
  await t.throwsAsync(scheduler.deploy([{ name: 'x', workersMax: 3 }], { environment: 'staging', bytes: bytes('b') }), {
    code: 'QUOTA_EXCEEDED',
  });
  t.deepEqual([await control.endpoints(), await control.builds(), await control.environments(), await control.deployments()], before);
});

test('a deployment of a build that was never uploaded is refused; an upload alone is nothing', async (t) => {
  const scheduler = await open(t);
  const request = { environment: '', buildDigest: 'ab'.repeat(32), buildSize: 1, endpoints: [], keep: [] };
  const spec = (await scheduler.deploy([{ name: 'echo' }])).endpoints.flatMap(({ spec: found }) => found ?? []);
  const deploy = unary((done) =>
    scheduler.control.deploy({ ...request, endpoints: spec }, scheduler.bearer(scheduler.secret('api-key')), done),
  );
  await t.throwsAsync(deploy, { code: 'NOT_FOUND', message: /upload it first/ });
  await scheduler.putBuild(bytes('never deployed'));
  t.deepEqual(
    (await as(scheduler).builds()).map(({ digest }) => digest),
    [buildDigest],
  );
});

test('settings change without a build; workers are replaced only for what they depend on', async (t) => {
  const scheduler = await open(t, { workerQuota: 5 });
  const { endpoints } = await scheduler.deploy([{ name: 'echo', env: { A: '1', B: '2' } }]);
  const [{ id, releaseId } = { id: '', releaseId: '' }] = endpoints;
  const control = as(scheduler);
  const settings = await control.update(id, {
    workersMax: 3,
    idleTimeoutS: 7,
    scalerType: 'REQUEST_COUNT',
    rateLimits: { run: { requests: 5, concurrent: 1 } },
  });
  t.deepEqual(
    [settings.spec?.workersMax, settings.spec?.idleTimeoutS, settings.spec?.scalerType, settings.spec?.rateLimits['run']?.requests],
    [3, 7, 'REQUEST_COUNT', 5],
  );
  t.is(settings.releaseId, releaseId);
  t.is((await control.update(id, { env: { A: '1' } })).releaseId, releaseId);
  const changed = await control.update(id, { env: { C: '3' }, unsetEnv: ['A'] });
  t.not(changed.releaseId, releaseId);
  t.is(changed.buildDigest, buildDigest);
  const session = (await scheduler.join('host')).session();
  await control.update('echo', { workersMin: 1 });
  for (;;) {
    const { releases } = await session.take('desired');
    if (releases.length === 0) continue;
    t.deepEqual(releases[0]?.env, { B: '2', C: '3' });
    break;
  }
  await t.throwsAsync(control.update(id, { workersMax: 6 }), { code: 'QUOTA_EXCEEDED' });
  await t.throwsAsync(control.update(id, { idleTimeoutS: 0 }), {
    code: 'INVALID_ARGUMENT',
    message: /^echo.idleTimeout: must be an integer between 1 and 3600 s, not 0$/,
  });
  await t.throwsAsync(control.update('nothing', { workersMax: 1 }), { code: 'NOT_FOUND' });
  t.is((await control.deployments()).length, 1);
});

test('a deleted endpoint takes no calls; its queue ends CANCELLED, its running job goes on to its end', async (t) => {
  const scheduler = await open(t);
  const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: 1 }]);
  const id = endpoints[0]?.id ?? '';
  const session = (await scheduler.join('host')).session();
  await session.bringUp();
  const watch = new Watch(t, scheduler);
  const channel = scheduler.channel();
  const running = channel.ask(id, submit('running', { waitMs: 60_000 }));
  const dispatch = await session.take('dispatch');
  session.send({ $case: 'started', value: { jobId: 'running', token: dispatch.token, agoMs: 0 } });
  const queued = channel.ask(id, submit('queued', { waitMs: 60_000 }));
  await channel.ask(id, submit('queued too'));
  const { endpoints: deleted } = await as(scheduler).undeploy(['echo']);
  t.deepEqual(
    deleted.map((info) => info.id),
    [id],
  );
  t.deepEqual((await watch.until(({ removedEndpoints }) => removedEndpoints.length > 0)).removedEndpoints, [id]);
  t.deepEqual([stateOf(await queued), errorOf(await queued)], [JobState.CANCELLED, 'the endpoint was deleted']);
  t.is(failure(await channel.ask(id, submit('late'))), 'NOT_FOUND');
  t.deepEqual(await as(scheduler).endpoints(), []);
  await t.throwsAsync(as(scheduler).undeploy(['echo']), { code: 'NOT_FOUND' });
  ended(session, dispatch, AttemptOutcome.COMPLETED);
  t.is(stateOf(await running), JobState.COMPLETED);
  // The name is free at once, the id is not given out again.
  const again = await scheduler.deploy([{ name: 'echo' }]);
  t.not(again.endpoints[0]?.id, id);
});

test('with stopped jobs nothing of an endpoint goes on; a restart in between changes nothing', async (t) => {
  const scheduler = await open(t, { nodeGraceMs: 100 });
  const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: 1 }]);
  const id = endpoints[0]?.id ?? '';
  const node = await scheduler.join('host');
  const session = node.session();
  const workers = (await session.bringUp()).map(({ workerId }) => workerId);
  const running = scheduler.channel().ask(id, submit('running', { waitMs: 60_000 }));
  const dispatch = await session.take('dispatch');
  session.send({ $case: 'started', value: { jobId: 'running', token: dispatch.token, agoMs: 0 } });
  // What names nothing deletes nothing.
  for (const names of [[], [''], ['echo', '']])
    await t.throwsAsync(as(scheduler).undeploy(names, true), { code: 'INVALID_ARGUMENT', message: /^endpoints: must have at least one/ });
  await t.throwsAsync(as(scheduler).undeployAll(''), { code: 'INVALID_ARGUMENT', message: /^environment: is required/ });
  await t.throwsAsync(as(scheduler).undeployAll('default', ['echo']), { code: 'INVALID_ARGUMENT', message: /^endpoints: must be empty/ });
  await as(scheduler).undeployAll('default', [], true);
  t.is(stateOf(await running), JobState.CANCELLED);
  const stop = await session.take('stop');
  t.deepEqual([stop.jobId, stop.reason], ['running', StopReason.CANCELLED]);
  await scheduler.restart();
  t.deepEqual(await as(scheduler).endpoints(), []);
  const later = node.session({ incarnation: 'second' });
  // The worker is drained until the agent says it is gone; then nothing of the endpoint is left.
  for (;;) {
    const { epoch, workers: desired } = await later.take('desired');
    t.true(desired.every(({ workerId, drain }) => workers.includes(workerId) && drain));
    later.send({ $case: 'workers', value: { epoch, workers: [] } });
    if (desired.length === 0) break;
  }
  t.deepEqual(await as(scheduler).builds(), []);
});

test('environments: made by a deployment or by themselves, deleted when empty or by force', async (t) => {
  const scheduler = await open(t);
  const control = as(scheduler);
  await scheduler.deploy([{ name: 'echo' }]);
  await control.createEnvironment('staging');
  await t.throwsAsync(control.createEnvironment('staging'), { code: 'ALREADY_EXISTS' });
  await t.throwsAsync(control.createEnvironment('no spaces'), { code: 'INVALID_ARGUMENT' });
  t.deepEqual(
    (await control.environments()).map(({ name, endpoints }) => [name, endpoints]),
    [
      ['default', 1],
      ['staging', 0],
    ],
  );
  await control.deleteEnvironment('staging');
  await t.throwsAsync(control.deleteEnvironment('staging'), { code: 'NOT_FOUND' });
  await t.throwsAsync(control.deleteEnvironment('default'), { code: 'CONFLICT', message: /has 1 endpoints/ });
  const { endpoints } = await control.deleteEnvironment('default', true);
  t.deepEqual(
    endpoints.map(({ spec }) => spec?.name),
    ['echo'],
  );
  t.deepEqual([await control.environments(), await control.endpoints()], [[], []]);
});

test('keys: their text is shown once, lists show the rest, revoking counts at once', async (t) => {
  const scheduler = await open(t);
  const control = as(scheduler);
  const watch = new Watch(t, scheduler);
  const made = await control.createKey(KeyScope.READ_ONLY);
  t.regex(made.text, /^cap_/);
  t.true(made.text.startsWith(made.key?.prefix ?? 'none'));
  const added = await watch.until(({ keys, reset }) => !reset && keys.length === 1);
  t.is(added.keys[0]?.scope, KeyScope.READ_ONLY);
  const listed = await control.keys();
  t.deepEqual(
    listed.map(({ name }) => name),
    ['first key', 'made'],
  );
  t.false(JSON.stringify(listed, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value)).includes(made.text));
  t.is((await as(scheduler, made.text).endpoints()).length, 0);
  const used = async (): Promise<boolean[]> => (await control.keys()).map(({ lastUsedAtMs }) => lastUsedAtMs > 0n);
  t.deepEqual(await used(), [false, false]);
  const hashes = added.keys.map(({ hash }) => hash);
  await unary((done) => scheduler.control.noteKeyUse({ hashes }, scheduler.bearer(scheduler.secret('gateway-token')), done));
  t.deepEqual(await used(), [false, true]);
  await control.revoke(made.key?.id ?? '');
  t.deepEqual(
    (await watch.until(({ removedKeys }) => removedKeys.length > 0)).removedKeys,
    added.keys.map(({ hash }) => hash),
  );
  await t.throwsAsync(as(scheduler, made.text).endpoints(), { code: 'UNAUTHENTICATED' });
  await t.throwsAsync(control.revoke(made.key?.id ?? ''), { code: 'NOT_FOUND' });
  await t.throwsAsync(control.revoke('first key'), { code: 'CONFLICT', message: /last one with the scope OPERATOR/ });
});

test('a key that expires is gone when its time is over, and after a restart too', async (t) => {
  const clock = new ManualClock();
  const scheduler = await open(t, {}, { clock });
  const { text } = await as(scheduler).createKey(KeyScope.ALL, { expiresInS: 60 });
  clock.advance(30_000);
  await scheduler.restart();
  t.is((await as(scheduler, text).endpoints()).length, 0);
  const watch = new Watch(t, scheduler);
  await watch.until(({ reset }) => reset);
  clock.advance(31_000);
  await watch.until(({ removedKeys }) => removedKeys.length > 0);
  await t.throwsAsync(as(scheduler, text).endpoints(), { code: 'UNAUTHENTICATED' });
});

test('scopes hold at every call of the control plane', async (t) => {
  const scheduler = await open(t);
  const { endpoints } = await scheduler.deploy([{ name: 'echo' }, { name: 'other' }]);
  await scheduler.deploy([{ name: 'echo' }], { environment: 'staging' });
  const owner = as(scheduler);
  const reader = as(scheduler, (await owner.createKey(KeyScope.READ_ONLY)).text);
  const some = as(scheduler, (await owner.createKey(KeyScope.ENDPOINTS, { endpoints: ['echo'] })).text);
  const staging = as(scheduler, (await owner.createKey(KeyScope.ENVIRONMENT, { environment: 'staging' })).text);
  t.is((await reader.endpoints()).length, 3);
  t.deepEqual(
    (await some.endpoints()).map(({ id }) => id),
    [endpoints[0]?.id],
  );
  t.deepEqual(
    (await staging.endpoints()).map(({ environment }) => environment),
    ['staging'],
  );
  t.deepEqual(
    (await staging.environments()).map(({ name }) => name),
    ['staging'],
  );
  t.is((await reader.builds()).length, 2);
  t.is((await reader.keys()).length, 4);
  const denied = { code: 'PERMISSION_DENIED' };
  for (const caller of [some, staging]) {
    await t.throwsAsync(caller.builds(), denied);
    await t.throwsAsync(caller.deployments(), denied);
    await t.throwsAsync(caller.keys(), denied);
    await t.throwsAsync(caller.account(), denied);
  }
  for (const caller of [reader, some, staging]) {
    await t.throwsAsync(caller.rollback(), denied);
    await t.throwsAsync(caller.update('echo', { workersMax: 1 }), denied);
    await t.throwsAsync(caller.undeploy(['echo']), denied);
    await t.throwsAsync(caller.createEnvironment('x'), denied);
    await t.throwsAsync(caller.deleteEnvironment('staging', true), denied);
    await t.throwsAsync(caller.createKey(KeyScope.ALL), denied);
    await t.throwsAsync(caller.revoke('made'), denied);
    await t.throwsAsync(caller.joinToken(), denied);
    await t.throwsAsync(caller.createAccount('x'), denied);
  }
  await t.throwsAsync(owner.createKey(KeyScope.ENDPOINTS), { code: 'INVALID_ARGUMENT' });
  await t.throwsAsync(owner.createKey(KeyScope.ENDPOINTS, { endpoints: ['nothing'] }), { code: 'NOT_FOUND' });
  await t.throwsAsync(owner.createKey(KeyScope.UNSPECIFIED), { code: 'INVALID_ARGUMENT', message: /scope: must be/ });
});

test('accounts are apart, each with its quota; only operators make them', async (t) => {
  const scheduler = await open(t, { workerQuota: 30 });
  const operator = as(scheduler);
  await scheduler.deploy([{ name: 'echo', workersMax: 5 }]);
  const { keyText, account } = await operator.createAccount('team', 2);
  t.is(account?.workerQuota, 2);
  await t.throwsAsync(operator.createAccount('team'), { code: 'ALREADY_EXISTS' });
  const team = as(scheduler, keyText);
  t.deepEqual([await team.endpoints(), await team.environments()], [[], []]);
  await t.throwsAsync(scheduler.deploy([{ name: 'echo', workersMax: 3 }], { token: keyText }), { code: 'QUOTA_EXCEEDED' });
  await scheduler.deploy([{ name: 'echo', workersMax: 2 }], { token: keyText });
  t.is((await team.endpoints()).length, 1);
  await t.throwsAsync(team.createAccount('another'), { code: 'PERMISSION_DENIED' });
  await t.throwsAsync(team.joinToken(), { code: 'PERMISSION_DENIED' });
  t.is((await operator.setQuota('team', 7)).workerQuota, 7);
  t.is((await team.account()).workerQuota, 7);
  // Under a quota that was lowered settings may be mended and maxima go down; nothing may be deployed or go up.
  await operator.setQuota('team', 1);
  t.is((await team.update('echo', { idleTimeoutS: 9 })).spec?.idleTimeoutS, 9);
  await t.throwsAsync(team.update('echo', { workersMax: 3 }), { code: 'QUOTA_EXCEEDED' });
  await t.throwsAsync(scheduler.deploy([{ name: 'echo', workersMax: 2 }], { token: keyText }), { code: 'QUOTA_EXCEEDED' });
  t.is((await operator.setQuota('team')).workerQuota, 30);
  await t.throwsAsync(operator.setQuota('nobody', 1), { code: 'NOT_FOUND' });
  await scheduler.restart();
  t.deepEqual(
    (await as(scheduler, keyText).endpoints()).map(({ spec }) => spec?.workersMax),
    [2],
  );
});

test('a worker’s token is good for its environment while the worker is there, and no longer', async (t) => {
  const scheduler = await open(t, { nodeGraceMs: 100 });
  const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: 1 }]);
  await scheduler.deploy([{ name: 'echo' }], { environment: 'staging' });
  const node = await scheduler.join('host');
  const session = node.session();
  let token = '';
  while (token === '') {
    const desired = await session.take('desired');
    token = desired.workers[0]?.token ?? '';
    t.true(desired.releases.every(({ environment }) => environment === 'default'));
  }
  t.deepEqual(
    (await as(scheduler, token).endpoints()).map(({ environment }) => environment),
    ['default'],
  );
  await t.throwsAsync(as(scheduler, token).undeploy(['echo']), { code: 'PERMISSION_DENIED' });
  const forged = `${token.slice(0, -2)}${token.endsWith('AA') ? 'BB' : 'AA'}`;
  await t.throwsAsync(as(scheduler, forged).endpoints(), { code: 'UNAUTHENTICATED' });
  const lookUp = async (): Promise<KeyEntry> =>
    unary((done) =>
      scheduler.control.lookupKey({ hash: Buffer.alloc(0), workerToken: token }, scheduler.bearer(scheduler.secret('gateway-token')), done),
    );
  t.deepEqual([(await lookUp()).scope, (await lookUp()).environment], [KeyScope.ENVIRONMENT, 'default']);
  t.deepEqual((await lookUp()).endpointIds, [endpoints[0]?.id ?? ''], 'the one whose jobs it may list');
  await as(scheduler).undeploy(['echo'], true);
  for (;;) {
    const { epoch, workers } = await session.take('desired');
    session.send({ $case: 'workers', value: { epoch, workers: [] } });
    if (workers.length === 0) break;
  }
  await t.throwsAsync(lookUp(), { code: 'NOT_FOUND' });
  await t.throwsAsync(as(scheduler, token).endpoints(), { code: 'UNAUTHENTICATED' });
});
