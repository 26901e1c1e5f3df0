/**
 * Measures what webhooks to hosts that are down cost the scheduler: jobs are submitted with a webhook to a port that refuses
 * connections and purged, which makes a delivery of each. Runs the real service. Prints one JSON document.
 *
 *   node bench/dead-webhooks.ts --jobs 20000 --hosts 20000 --seconds 60
 *
 * `--hosts`: addresses of this machine that the webhooks name in turn.
 */
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { setTimeout as pause } from 'node:timers/promises';

import { runLoad } from './driver/load.ts';
import { prepareRequest } from './driver/request.ts';
import { coresBetween, cpuByRole } from './processes.ts';
import { healthOf, startStack } from './stack.ts';

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '20000' },
    hosts: { type: 'string', default: '1' },
    seconds: { type: 'string', default: '60' },
    folder: { type: 'string' },
  },
});
const wanted = Number(values.jobs);
const hosts = Number(values.hosts);
const seconds = Number(values.seconds);
/** Jobs are submitted in loads of this length until there are enough, ms. */
const FILL_MS = Math.min(2_000, seconds * 1_000);
const CONNECTIONS = 32;

const stack = await startStack(values.folder);
try {
  const endpoint = stack.endpoints.get('bench-parked') ?? '';
  const headers = { authorization: `Bearer ${stack.apiKey}` };
  const port = await closedPort();
  const bodyOf = (n: number): string => JSON.stringify({ input: { n: 1 }, webhook: `http://${addressOf(n % hosts)}:${port}/` });
  let errors = 0;
  let queued = 0;
  const url = `${stack.url}/v2/${endpoint}/run`;
  const isEnough = async (): Promise<boolean> => {
    queued = (await healthOf(stack, endpoint)).jobs.inQueue;
    console.error(`=> ${queued} jobs`);
    return queued >= wanted;
  };
  if (hosts === 1) {
    const request = prepareRequest({ url, headers, body: bodyOf(0) });
    while (!(await isEnough())) errors += (await runLoad(request, { connections: CONNECTIONS, durationMs: FILL_MS, warmupMs: 0 })).errors;
  } else {
    let next = 0;
    const submit = async (): Promise<void> => {
      while (next < wanted) {
        const body = bodyOf(next++);
        const answer = await fetch(url, { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body });
        await answer.arrayBuffer();
        if (!answer.ok) errors++;
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, submit));
    await isEnough();
  }
  const purged = await fetch(`${stack.url}/v2/${endpoint}/purge-queue`, { method: 'POST', headers });
  if (!purged.ok) throw new Error(`purge-queue answered ${purged.status}: ${await purged.text()}`);
  await purged.arrayBuffer();

  const { data } = (await (
    await fetch(`${stack.url}/graphql`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ query: '{ webhooks(limit: 1) { webhooks { id } } }' }),
    })
  ).json()) as { data?: { webhooks: { webhooks: readonly unknown[] } } };
  if (data?.webhooks.webhooks.length !== 1) throw new Error('no webhook is waiting: nothing would be measured');

  const shares: number[] = [];
  for (let from = 0; from < seconds; from += seconds / 6) {
    const before = cpuByRole(stack.pid);
    const at = performance.now();
    await pause((seconds * 1_000) / 6);
    const cores = coresBetween(before, cpuByRole(stack.pid), (performance.now() - at) / 1_000);
    shares.push(Math.round((cores['scheduler'] ?? 0) * 100) / 100);
  }
  const mean = Math.round((shares.reduce((sum, share) => sum + share, 0) / shares.length) * 100) / 100;
  const document = {
    bench: 'dead-webhooks',
    webhooks: queued,
    hosts,
    seconds,
    schedulerCores: { mean, windows: shares },
    target: 0.3,
    load: loadavg()[0],
    errors,
  };
  console.log(JSON.stringify(document, null, 2));
  if (errors > 0) process.exitCode = 1;
} finally {
  await stack.close();
}

/** One of the 16 million addresses of the loopback interface. */
function addressOf(n: number): string {
  return `127.${1 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`;
}

/** A port of this host on which nothing listens. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
