/** A scheduler behind a gateway, and a small project that the tool deploys to them. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { ExecutionContext } from 'ava';

import { readConfig as readGatewayConfig } from '../../../gateway/config.ts';
import { start as startGateway } from '../../../gateway/assembly/start.ts';
import { readConfig } from '../../../scheduler/config.ts';
import { start } from '../../../scheduler/assembly/start.ts';
import { ownFolder } from '../../support/own-folder.ts';
import { run } from './run.ts';

export const bin = join(import.meta.dirname, '../../../cli/capstan.mjs');
export const KEY = 'cap_the-key-of-this-test';

export const MANIFEST = {
  project_name: 'shop',
  resources: {
    orders: { functions: [{ name: 'order', module: 'orders' }], workersMax: 2, env: { TOKEN: 's3cret-value' } },
    web: { is_load_balanced: true, functions: [{ name: 'hello', module: 'orders.ts' }], workersMax: 1 },
  },
  routes: { web: { 'GET /hello': 'hello' } },
};
export const SOURCE = `export interface Order { id: number; note?: string }
export function order(order: Order) { return order; }
export function hello() { return 'hi'; }
`;

export interface World {
  readonly folder: string;
  /** Of the gateway. */
  readonly url: string;
  capstan(...args: string[]): Promise<{ code: number | string; stdout: string; stderr: string }>;
}

export async function world(t: ExecutionContext): Promise<World> {
  const data = await ownFolder('capstan-deploy');
  const folder = await ownFolder('capstan-app');
  const scheduler = await start(readConfig({ dataDir: data, port: 0, apiKey: KEY, logLevel: 'silent' }, {}));
  const token = (await readFile(join(data, 'secrets/gateway-token'), 'utf8')).trim();
  const own = { port: 0, scheduler: scheduler.address, token, logLevel: 'silent', closeGraceMs: 0 };
  const gateway = await startGateway(readGatewayConfig(own, {}));
  t.teardown(async () => {
    await gateway.close();
    await scheduler.close();
    await rm(data, { recursive: true, force: true });
    await rm(folder, { recursive: true, force: true });
  });
  await writeFile(join(folder, 'tool_manifest.json'), JSON.stringify(MANIFEST));
  await writeFile(join(folder, 'orders.ts'), SOURCE);
  return {
    folder,
    url: gateway.url,
    async capstan(...args) {
      // No node is connected: no release would serve.
      const changes = args[0] === 'deploy' && !args.includes('--dry-run') ? ['--no-wait'] : [];
      const running = run([bin, ...args, ...changes], {
        cwd: folder,
        env: { SERVICE_API_KEY: KEY, CAPSTAN_URL: gateway.url, CAPSTAN_SCHEDULER: scheduler.address, CAPSTAN_DATA_DIR: data },
      });
      const code = await running.ended;
      return { code, stdout: running.stdout(), stderr: running.stderr() };
    },
  };
}

export interface Row {
  readonly id: string;
  readonly name: string;
  readonly kind: string;
  readonly url: string;
  readonly environment: string;
  readonly created?: boolean;
  readonly buildDigest: string;
  readonly releaseId: string;
}

export function rowOf(rows: readonly Row[], name: string): Row {
  const row = rows.find((each) => each.name === name);
  if (row === undefined) throw new Error(`no endpoint ${name}`);
  return row;
}

export const rowsOf = (stdout: string): Row[] => JSON.parse(stdout) as Row[];
