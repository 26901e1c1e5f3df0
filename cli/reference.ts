/** The reference application of `npm start`: load-balanced routes, without those that need a GPU where no host has one. */
import { listEndpoints } from './api/control.ts';
import { connectGateway } from './api/gateway-client.ts';
import { ownSettings } from './api/local-endpoints.ts';
import { buildOptions } from './build-options.ts';
import { build } from './build/build.ts';
import type { Application } from './deploy/application.ts';
import { deployApplication } from './deploy/deploy.ts';
import { apiKey, withScheduler } from './local.ts';
import type { Sample } from './sample.ts';

const ENVIRONMENT = 'default';

export interface Reference extends Sample {
  /** Domain of load-balanced endpoints; the gateway's default when absent. */
  readonly lbDomain: string | undefined;
}

export async function showReference({ folder, settings, url, lbDomain = 'lb.localhost', key, terminal }: Reference): Promise<void> {
  const own = ownSettings(settings);
  const { application, artifact } = await build(folder, buildOptions({}, { variables: {}, cwd: folder }), terminal);
  const nodes = await withScheduler(own, (client) => client.listNodes());
  const hasGpu = nodes.some(({ inventory }) => (inventory?.devices ?? []).length > 0);
  const left: Application = hasGpu
    ? application
    : { ...application, endpoints: application.endpoints.filter(({ spec }) => spec.gpuIds === '') };
  for (const { spec } of application.endpoints) {
    if (hasGpu || spec.gpuIds === '') continue;
    const routes = Object.keys(spec.routes).join(', ');
    terminal.warn(`no host has a GPU: the endpoint ${spec.name} (${routes}) is left out`);
  }
  const client = connectGateway(url, apiKey(own));
  const known = await listEndpoints(client, ENVIRONMENT);
  const names = left.endpoints.map(({ spec }) => spec.name);
  const same = known.filter(({ name, buildDigest }) => names.includes(name) && buildDigest === artifact.digest);
  const rows = same.length === names.length ? same : (await deployApplication(client, left, artifact, ENVIRONMENT, terminal)).endpoints;
  const { protocol, port } = new URL(url);
  const at = port === '' ? lbDomain : `${lbDomain}:${port}`;
  for (const { id, name, routes } of rows) {
    terminal.done(`${name} serves ${Object.keys(routes).join(', ')} at ${protocol}//${id}.${at}`);
  }
  const first = rows.find(({ routes }) => Object.hasOwn(routes, 'GET /health'));
  if (first !== undefined) terminal.next(`curl -s ${url}/lb/${first.id}/health -H "Authorization: Bearer ${key}"`);
}
