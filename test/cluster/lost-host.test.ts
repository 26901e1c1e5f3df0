/** The owner's host is lost from the network: no packet of it comes any more, and nobody is told that its connections ended. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { readConfig as agentConfig } from '../../agent/config.ts';
import { start as startAgent } from '../../agent/start.ts';
import { readConfig } from '../../gateway/config.ts';
import { start as startGateway } from '../../gateway/assembly/start.ts';
import { prepareDataFolder } from '../../scheduler/secrets/data-folder.ts';
import { Network } from '../history/faults/partition.ts';
import { folderOf } from '../support/folder.ts';
import { NO_POSTGRES, postgresBinaries, startPostgres } from '../support/postgres.ts';
import { copyOfSecrets } from '../support/schedulers.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');
/** Of the namespace, where nothing else listens. */
const PORT = 7070;

const binaries = await postgresBinaries();
const missing = binaries === undefined ? NO_POSTGRES : lacksNetworks();

test('an owner whose packets are dropped both ways gives up by itself and is replaced, and gateway and agent follow', async (t) => {
  if (binaries === undefined || missing !== null) {
    t.log(`skipped: ${missing ?? NO_POSTGRES}`);
    t.pass();
    return;
  }
  const server = await startPostgres(binaries);
  t.teardown(() => server.stop());
  const network = new Network();
  t.teardown(() => network.close());
  const { path, secrets } = await prepareDataFolder(await folderOf(t));
  const store = await server.newDatabase();
  const relay = await TcpProxy.open(t, server.port, network.site.host);
  const through = new URL(store);
  through.hostname = network.site.host;
  through.port = String(relay.port);
  through.searchParams.set('sslmode', 'disable');
  const address = `${network.address}:${PORT}`;
  const shared = { CAPSTAN_BLOB_DIR: await folderOf(t), CAPSTAN_BLOB_DIR_SHARED: 'true', CAPSTAN_GRPC_PLAIN: 'anywhere' };

  const owner = await schedulerOf(t, path, network.site.prefix, {
    ...shared,
    CAPSTAN_STORE: through.href,
    CAPSTAN_GRPC_HOST: '0.0.0.0',
    CAPSTAN_GRPC_PORT: String(PORT),
    CAPSTAN_ADVERTISE: address,
  });
  t.like(await owner.said('ready'), { role: 'owner' });
  const standby = await schedulerOf(t, path, [], { ...shared, CAPSTAN_STORE: store, CAPSTAN_GRPC_PORT: '0' });
  const ready = await standby.said('ready');
  t.like(ready, { role: 'standby' });

  const gateway = await startGateway(
    readConfig(
      {
        port: 0,
        scheduler: `${address},${ready.address}`,
        grpcPlain: 'anywhere',
        token: secrets.gatewayToken,
        logLevel: 'silent',
        closeGraceMs: 0,
      },
      {},
    ),
  );
  t.teardown(() => gateway.close());
  // Only an owner knows that an endpoint does not exist.
  const ask = async (endpoint: string): Promise<number> => {
    const headers = { authorization: secrets.apiKey };
    for (;;) {
      const { status } = await fetch(`${gateway.url}/v2/${endpoint}/health`, { headers });
      if (status !== 503) return status;
    }
  };
  t.is(await ask('before'), 404);
  const agent = await startAgent(
    agentConfig(
      {
        dataDir: await folderOf(t),
        scheduler: `${address},${ready.address}`,
        grpcPlain: 'anywhere',
        joinToken: secrets.joinToken,
        nodeName: 'gpu',
        isolation: 'none',
        logLevel: 'silent',
        spareHosts: 0,
      },
      {},
    ),
  );
  t.teardown(() => agent.close());
  await agent.joined;
  /** Whether the present owner has a session of the agent. */
  const isConnected = async (): Promise<boolean> => {
    const response = await fetch(`${gateway.url}/graphql`, {
      method: 'POST',
      headers: { authorization: secrets.apiKey, 'content-type': 'application/json' },
      body: JSON.stringify({ query: '{ nodes { name connected } }' }),
    });
    const { data } = (await response.json()) as { data?: { nodes: { name: string; connected: boolean }[] } | null };
    return data?.nodes.some(({ name, connected }) => name === 'gpu' && connected) === true;
  };
  await until('the owner has the agent', isConnected);

  network.cut();
  t.like(await standby.said('role'), { role: 'owner' });
  t.is(await ask('meanwhile'), 404);
  await until('the next owner has the agent', isConnected);
  t.like(await owner.said('role'), { role: 'standby' }, 'it hears nothing, and serves nothing');
  network.mend();
  t.is(await ask('after'), 404);
});

/** What is missing for networks of their own; null if nothing is. */
function lacksNetworks(): string | null {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'a network namespace needs root on Linux';
  for (const [tool, ...args] of [['ip', '-V'] as const, ['iptables', '-w', '-S'] as const])
    try {
      execFileSync(tool, args, { stdio: 'ignore' });
    } catch {
      return `${tool} is not installed, or may not be used here (Debian: iproute2, iptables)`;
    }
  return null;
}

interface Message {
  readonly type: string;
  readonly role: string;
  readonly address: string;
}

async function schedulerOf(t: ExecutionContext, secretsOf: string, prefix: readonly string[], settings: Record<string, string>) {
  const [command, ...args] = [...prefix, process.execPath, tool, 'scheduler'];
  const dataDir = await copyOfSecrets(t, secretsOf);
  const child = spawn(command, args, {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    env: { PATH: process.env['PATH'], CAPSTAN_SUPERVISED: '1', CAPSTAN_LOG_LEVEL: 'fatal', CAPSTAN_DATA_DIR: dataDir, ...settings },
  });
  const exit = once(child, 'exit');
  t.teardown(async () => {
    child.kill('SIGKILL');
    await exit;
  });
  const messages: Message[] = [];
  const waiting: (() => void)[] = [];
  child.on('message', (message) => {
    messages.push(message as Message);
    for (const wake of waiting.splice(0)) wake();
  });
  return {
    /** The first message of this type, waiting for it. */
    async said(type: string): Promise<Message> {
      for (;;) {
        const found = messages.find((message) => message.type === type);
        if (found !== undefined) return found;
        if (messages.some((message) => message.type === 'failed')) throw new Error(`the scheduler failed: ${JSON.stringify(messages)}`);
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
    },
  };
}
