/** Several processes of a gateway on one port, in front of a fake scheduler. */
import cluster from 'node:cluster';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';

import test, { type ExecutionContext } from 'ava';
import { Agent } from 'undici';

import { readConfig, type GatewayConfig } from '../../gateway/config.ts';
import { createLog, type Log } from '../../gateway/log.ts';
import { GatewayProcesses } from '../../gateway/processes/primary.ts';
import { runGateway } from '../../gateway/processes/run.ts';
import { portToKeep, processCount, shareOf } from '../../gateway/processes/shares.ts';
import { answerTo } from '../support/http-answer.ts';
import { FakeScheduler, TOKEN } from './fake-scheduler.ts';
import { KEY, OPERATOR_KEY } from './harness.ts';

const silent = createLog('silent');
const dispatcher = new Agent({ pipelining: 0 });

test.after.always(() => dispatcher.destroy());

interface Started {
  readonly processes: GatewayProcesses;
  /** Sends a request over a connection of its own. */
  readonly call: (path: string, key?: string, body?: object) => Promise<{ readonly status: number; readonly text: string }>;
}

/** A log of the primary that keeps its warnings and errors. */
function recorded(): { readonly log: Log; readonly lines: string[] } {
  const lines: string[] = [];
  const keep = (_fields: object, message: string): void => void lines.push(message);
  return { log: Object.assign(Object.create(silent) as Log, { warn: keep, error: keep }), lines };
}

async function startTwo(t: ExecutionContext, overrides: Record<string, unknown> = {}, log: Log = silent): Promise<Started> {
  const scheduler = await new FakeScheduler().start();
  t.teardown(() => scheduler.stop());
  scheduler.addKey(KEY);
  scheduler.addKey(OPERATOR_KEY, { account: 'default' });
  scheduler.addEndpoint('ep');
  const settings = { port: 0, scheduler: scheduler.address, token: TOKEN, logLevel: 'silent', closeGraceMs: 2_000, ...overrides };
  const processes = await GatewayProcesses.start(readConfig(settings, {}), 2, log);
  t.teardown(() => processes.close());
  const call: Started['call'] = async (path, key = KEY, body) => {
    const headers = { authorization: `Bearer ${key}`, connection: 'close', ...(body && { 'content-type': 'application/json' }) };
    return answerTo(`${processes.url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers,
      ...(body && { body: JSON.stringify(body) }),
      dispatcher,
    });
  };
  // The process that answers is the next one: each has read its directory when it answers.
  for (let answered = 0; answered < 2;) answered = (await call('/v2/ep/health')).status === 200 ? answered + 1 : 0;
  return { processes, call };
}

function pids(): Set<number> {
  return new Set(Object.values(cluster.workers ?? {}).flatMap((worker) => worker?.process.pid ?? []));
}

/** Requests to this route that the metrics of the gateway count. */
async function counted(call: Started['call'], route: string): Promise<number> {
  const { status, text } = await call('/metrics?part=gateway', OPERATOR_KEY);
  if (status !== 200) throw new Error(`metrics: ${status} ${text}`);
  const lines = text.split('\n').filter((line) => line.startsWith('capstan_http_requests_total{') && line.includes(`route="${route}"`));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

const HEALTH = '/v2/:endpointId/health';

test.serial('processes take connections in turn, and the metrics are those of all', async (t) => {
  const { call } = await startTwo(t);
  const before = await counted(call, HEALTH);
  for (let sent = 0; sent < 9; sent++) t.is((await call('/v2/ep/health')).status, 200);
  // Whichever process answers.
  t.is(await counted(call, HEALTH), before + 9);
  t.is(await counted(call, HEALTH), before + 9);
  const { text } = await call('/metrics?part=gateway', OPERATOR_KEY);
  t.regex(text, /^capstan_gateway_scheduler_connected\{cell="default"\} 1$/m);
  t.regex(text, new RegExp(`^capstan_http_request_duration_seconds_count\\{.*route="${HEALTH}".*\\} ${before + 9}$`, 'm'));
});

test.serial('a killed process is started again, and what it counted stays', async (t) => {
  const { log, lines } = recorded();
  const { call } = await startTwo(t, {}, log);
  for (let sent = 0; sent < 4; sent++) await call('/v2/ep/health');
  const before = await counted(call, HEALTH);
  const [first] = Object.values(cluster.workers ?? {});
  const pid = first?.process.pid ?? 0;
  const fork = once(cluster, 'fork');
  process.kill(pid, 'SIGKILL');
  await once(first!, 'exit');
  t.is(await counted(call, HEALTH), before, 'by the process that is left');
  await fork;
  t.true((await counted(call, HEALTH)) >= before, 'one that starts has no figures');
  t.deepEqual(lines, ['a gateway process ended; it is started again']);
  while (pids().size < 2 || pids().has(pid)) await call('/v2/ep/health');
  t.true((await counted(call, HEALTH)) >= before);
});

test.serial('a reload replaces every process and loses no request', async (t) => {
  const { processes, call } = await startTwo(t);
  const former = pids();
  const reloaded = new AbortController();
  let answered = 0;
  const callers = Array.from({ length: 4 }, async () => {
    while (!reloaded.signal.aborted) {
      t.is((await call('/v2/ep/health')).status, 200);
      answered += 1;
    }
  });
  const { url } = processes;
  await processes.reload();
  reloaded.abort();
  await Promise.all(callers);
  t.is(pids().size, 2);
  t.false([...pids()].some((pid) => former.has(pid)));
  t.is(processes.url, url);
  t.true((await counted(call, HEALTH)) >= answered, 'those of the former processes are counted');
});

test.serial('a primary that is slow passes no connection on to a process that has ended', async (t) => {
  const { processes, call } = await startTwo(t);
  const reloaded = new AbortController();
  const statuses = new Set<number>();
  const callers = Array.from({ length: 8 }, async () => {
    while (!reloaded.signal.aborted) statuses.add((await call('/v2/ep/health')).status);
  });
  const still = new Int32Array(new SharedArrayBuffer(4));
  const stalls = setInterval(() => Atomics.wait(still, 0, 0, 300), 1);
  t.teardown(() => clearInterval(stalls));
  for (let round = 0; round < 2; round++) await processes.reload();
  clearInterval(stalls);
  reloaded.abort();
  await Promise.all(callers);
  t.deepEqual([...statuses], [200]);
});

test.serial('a process that ends while a reload replaces it is not started twice', async (t) => {
  const { processes } = await startTwo(t);
  let forks = 0;
  const count = (): void => void (forks += 1);
  cluster.on('fork', count);
  t.teardown(() => void cluster.off('fork', count));
  const [first, second] = Object.values(cluster.workers ?? {});
  const forked = once(cluster, 'fork');
  const reloading = processes.reload();
  await forked;
  first?.process.kill('SIGKILL');
  await reloading;
  // Its restart waits as long as that of the first and begins later.
  const [last] = Object.values(cluster.workers ?? {}).filter((worker) => worker !== first && worker !== second);
  const again = once(cluster, 'fork');
  last?.process.kill('SIGKILL');
  await again;
  while (pids().size < 2) await once(cluster, 'fork');
  t.is(forks, 3);
});

test.serial('a process that starts is ended at once when the gateway closes', async (t) => {
  const { log, lines } = recorded();
  const { processes } = await startTwo(t, {}, log);
  const forked = once(cluster, 'fork');
  const reloading = processes.reload();
  await forked;
  await processes.close();
  await reloading;
  t.deepEqual(lines, []);
  t.is(pids().size, 0);
});

test.serial('the rate of a key holds over all processes', async (t) => {
  const perSecond = 5;
  const { call } = await startTwo(t, { graphqlPerSecond: perSecond });
  const startedAt = performance.now();
  const answers = await Promise.all(Array.from({ length: 30 }, () => call('/graphql', KEY, { query: '{ __typename }' })));
  const allowed = perSecond + (perSecond * (performance.now() - startedAt)) / 1000;
  const passed = answers.filter(({ status }) => status === 200).length;
  t.true(passed >= perSecond && passed <= allowed, `${passed} of at most ${allowed}`);
  t.is(answers.filter(({ status }) => status === 429).length, answers.length - passed);
});

test.serial('a port in use is reported, and no process is left', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  t.teardown(() => other.close());
  const { port } = other.address() as AddressInfo;
  const listeners = process.listeners('SIGUSR2');
  const starting = runGateway(config({ port, processes: 2, scheduler: '127.0.0.1:1', logLevel: 'silent' }));
  const [added] = process.listeners('SIGUSR2').filter((each) => !listeners.includes(each));
  t.truthy(added, 'the signal does not end a gateway that starts');
  if (added !== undefined) process.off('SIGUSR2', added);
  await t.throwsAsync(starting, { code: 'ADDRESS_IN_USE' });
  await t.throwsAsync(startTwo(t, { port }), { code: 'ADDRESS_IN_USE', message: new RegExp(`127\\.0\\.0\\.1:${port}`) });
  t.is(pids().size, 0);
});

const config = (overrides: Record<string, unknown>): GatewayConfig => readConfig({ token: TOKEN, ...overrides }, {});

test('limits are divided, and ports for agents follow each other', (t) => {
  const whole = config({ invokePort: 7_443, invokeAddress: 'gateway.example:9000', maxInFlight: 1_000, lookupsPerSecond: 50 });
  const parts = Array.from({ length: 4 }, (_, index) => shareOf(whole, index, 4));
  t.deepEqual(
    parts.map(({ invokePort, invokeAddress }) => [invokePort, invokeAddress]),
    [
      [7_443, 'gateway.example:9000'],
      [7_444, 'gateway.example:9001'],
      [7_445, 'gateway.example:9002'],
      [7_446, 'gateway.example:9003'],
    ],
  );
  for (const part of parts) {
    t.is(part.maxInFlight, 250);
    t.is(part.maxBodyMemoryBytes, whole.maxBodyMemoryBytes / 4);
    t.is(part.lookupsPerSecond, 13);
  }
  // Two of the largest bodies fit, however many processes there are.
  t.is(shareOf(whole, 0, 64).maxBodyMemoryBytes, 2 * whole.lbMaxBodyBytes);
});

test('a port that was picked is kept, and a configured one stays', (t) => {
  t.is(portToKeep(config({ port: 0 }), 'http://127.0.0.1:4711'), 4_711);
  t.is(portToKeep(config({ port: 443 }), 'https://127.0.0.1'), 443);
  t.is(portToKeep(config({ port: 80 }), 'http://127.0.0.1'), 80);
});

test('without a setting, a fixed port for agents means one process', (t) => {
  t.is(processCount(config({ invokePort: 7_443 })), 1);
  t.is(processCount(config({ invokeAddress: 'gateway.example:9000' })), 1);
  t.is(processCount(config({ invokePort: 7_443, processes: 3 })), 3);
  t.true(processCount(config({})) >= 1 && processCount(config({})) <= 8);
  t.throws(() => processCount(config({ invokePort: 65_534, processes: 3 })), { code: 'CONFIG', message: /CAPSTAN_GATEWAY_PROCESSES/ });
});
