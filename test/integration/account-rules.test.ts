/** Rules for the workers of accounts over gRPC: who sets them, which are refused, what deployments may ask for, what agents get. */
import test from 'ava';

import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { AccountInfo, CreateAccountResponse, IsolationRulesPatch } from '../../proto/gen/capstan/v1/control.ts';
import { Inventory } from '../../proto/gen/capstan/v1/nodes.ts';
import { until } from '../support/until.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';

const patch = (given: Partial<IsolationRulesPatch>): IsolationRulesPatch => ({
  least: undefined,
  network: undefined,
  runtimes: [],
  setRuntimes: given.runtimes !== undefined,
  ...given,
});

test('an operator sets rules, bad ones are refused by name, and they last', async (t) => {
  const scheduler = await TestScheduler.open({ accountIsolation: 'sandbox' });
  t.teardown(() => scheduler.close());
  const operator = scheduler.secret('api-key');
  const create = (id: string, isolation?: IsolationRulesPatch): Promise<CreateAccountResponse> =>
    unary((done) => scheduler.control.createAccount({ id, workerQuota: 0, isolation }, scheduler.bearer(operator), done));
  const update = (id: string, isolation: IsolationRulesPatch | undefined, token = operator): Promise<AccountInfo> =>
    unary((done) => scheduler.control.updateAccount({ id, isolation }, scheduler.bearer(token), done));
  const own = (token: string): Promise<AccountInfo> => unary((done) => scheduler.control.getAccount({}, scheduler.bearer(token), done));

  t.deepEqual((await own(operator)).isolation, { least: 'none', runtimes: [], network: 'host' });
  const { account, keyText } = await create('acme');
  t.deepEqual(account?.isolation, { least: 'sandbox', runtimes: [], network: 'auto' });
  const given = await create('other', patch({ least: 'user', runtimes: ['container', 'process'], network: 'outbound' }));
  t.deepEqual(given.account?.isolation, { least: 'user', runtimes: ['process', 'container'], network: 'outbound' });

  const refusals: readonly [IsolationRulesPatch, RegExp][] = [
    [patch({ least: 'strong' }), /^isolation.least: must be one of none, user, sandbox, container, gvisor$/],
    [patch({ network: 'lan' }), /^isolation.network: must be one of auto, host, outbound, none$/],
    [patch({ runtimes: ['vm'] }), /^isolation.runtimes: "vm" must be one of thread, process, container$/],
    [
      patch({ least: 'gvisor', runtimes: ['process'] }),
      /^isolation.runtimes: must contain container: no other runtime has the level gvisor$/,
    ],
  ];
  for (const [rules, message] of refusals) await t.throwsAsync(update('acme', rules), { code: 'INVALID_ARGUMENT', message });
  await t.throwsAsync(update('acme', patch({ least: 'none' }), keyText), { code: 'PERMISSION_DENIED' });
  await t.throwsAsync(update('nobody', patch({ least: 'none' })), { code: 'NOT_FOUND' });
  t.deepEqual((await update('acme', patch({ runtimes: ['container'] }))).isolation, {
    least: 'sandbox',
    runtimes: ['container'],
    network: 'auto',
  });
  // What is still stored counts, too.
  await update('acme', patch({ least: 'container' }));
  await t.throwsAsync(update('acme', patch({ runtimes: ['thread'] })), { code: 'INVALID_ARGUMENT' });
  t.deepEqual((await update('acme', patch({ runtimes: [] }))).isolation?.runtimes, []);
  // A reset of the quotas is none of the rules.
  t.is((await update('acme', undefined)).isolation?.least, 'container');
  await scheduler.restart();
  t.is((await own(keyText)).isolation?.least, 'container');
});

test('a deployment that asks for what its account may not have is refused, with the rule', async (t) => {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const operator = scheduler.secret('api-key');
  const { keyText } = await unary<CreateAccountResponse>((done) =>
    scheduler.control.createAccount(
      { id: 'acme', workerQuota: 0, isolation: patch({ least: 'container', network: 'outbound' }) },
      scheduler.bearer(operator),
      done,
    ),
  );
  const deploy = (spec: object, token = keyText): Promise<unknown> => scheduler.deploy([{ name: 'e', ...spec }], { token });
  const program = { kind: EndpointKind.LOAD_BALANCED, functions: [], imageName: 'acme/server', command: ['serve'] };
  for (const [spec, message] of [
    [{ runtime: 'process' }, 'e.runtime: must be container: the account allows no other runtime'],
    [{ network: 'host' }, 'e.network: must not be wider than outbound, the widest network that the account allows'],
    [{ network: 'lan' }, /^e.network: must be host, outbound or none/],
    [{ ...program, network: 'none' }, /^e.network: must be host or outbound for an endpoint without functions/],
  ] as const)
    await t.throwsAsync(deploy(spec), { code: 'INVALID_ARGUMENT', message });
  await t.notThrowsAsync(deploy({ network: 'none' }));
  const plain = await unary<CreateAccountResponse>((done) =>
    scheduler.control.createAccount({ id: 'plain', workerQuota: 0 }, scheduler.bearer(operator), done),
  );
  await t.throwsAsync(deploy({ network: 'host' }, plain.keyText), {
    code: 'INVALID_ARGUMENT',
    message: 'e.network: must not be host: the account is not permitted to use the network of the host',
  });
  await t.notThrowsAsync(deploy({ network: 'outbound' }, plain.keyText));
  await t.notThrowsAsync(deploy({ network: 'host', runtime: 'process' }, operator));
});

test('agents get the level and the network that a worker needs', async (t) => {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const operator = scheduler.secret('api-key');
  const { keyText } = await unary<CreateAccountResponse>((done) =>
    scheduler.control.createAccount(
      { id: 'acme', workerQuota: 0, isolation: patch({ least: 'sandbox' }) },
      scheduler.bearer(operator),
      done,
    ),
  );
  const node = await scheduler.join('n');
  const isolation = { processes: 'sandbox', containers: '', processNetworks: ['host', 'none'], containerNetworks: [], missing: [] };
  const session = node.session({ inventory: Inventory.fromPartial({ runtimes: ['thread', 'process'], isolation }) });
  await session.take('welcome');
  await scheduler.deploy([{ name: 'e', workersMin: 1, workersMax: 1, network: 'none' }], { token: keyText });
  const releases = await until('the worker is desired', async () => {
    const desired = await session.take('desired');
    return desired.workers.length === 1 ? desired.releases : null;
  });
  t.like(releases[0], { leastIsolation: 'sandbox', network: 'none', closedNetwork: true });
  // The operator's own account may have what the node has.
  await scheduler.deploy([{ name: 'own', workersMin: 1, workersMax: 1 }]);
  const own = await until('the other worker is desired', async () => {
    const desired = await session.take('desired');
    return desired.releases.find(({ endpointName }) => endpointName === 'own') ?? null;
  });
  t.like(own, { closedNetwork: false });
  t.is(own.network, undefined);
});

test('an endpoint that is reached over its network goes to a node that has one for its account, and shows why others were passed over', async (t) => {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const { keyText } = await unary<CreateAccountResponse>((done) =>
    scheduler.control.createAccount(
      { id: 'acme', workerQuota: 0, isolation: patch({ least: 'sandbox' }) },
      scheduler.bearer(scheduler.secret('api-key')),
      done,
    ),
  );
  const opened = async (name: string, networks: readonly string[], closedNetwork: string) => {
    const isolation = { processes: 'sandbox', processNetworks: [...networks], defaultNetwork: 'host', closedNetwork };
    const session = (await scheduler.join(name)).session({
      inventory: Inventory.fromPartial({ runtimes: ['thread', 'process'], isolation }),
    });
    await session.take('welcome');
    return session;
  };
  await opened('closed', ['host', 'none'], 'none');
  const program = { name: 'server', kind: EndpointKind.LOAD_BALANCED, functions: [], command: ['serve'], workersMin: 1, workersMax: 1 };
  const { endpoints } = await scheduler.deploy([program], { token: keyText });
  const shown = await until('the reason is shown', async () => {
    const detail = await unary((done) =>
      scheduler.control.getEndpoint({ endpointId: endpoints[0]?.id ?? '' }, scheduler.bearer(keyText), done),
    );
    const text = JSON.stringify(detail, (_key, value: unknown) => (typeof value === 'bigint' ? Number(value) : value));
    return text.includes('the account may not have that') ? text : null;
  });
  t.regex(shown, /ISOLATION_TOO_WEAK/);
  const open = await opened('open', ['host', 'outbound', 'none'], 'outbound');
  const desired = await until('the worker is desired', async () => {
    const next = await open.take('desired');
    return next.workers.length === 1 ? next : null;
  });
  t.like(desired.releases[0], { closedNetwork: true });
});
