/** Fields of environments, endpoints, their releases and their figures. */
import { fieldOf, UPDATABLE_PLAIN_NAMES } from '../../lib/endpoint-settings.ts';
import { CapstanError } from '../../lib/errors.ts';
import { EndpointPatch } from '../../proto/gen/capstan/v1/control.ts';
import { buildDifference } from './build-difference.ts';
import { checkSetting, whole } from './endpoint-form.ts';
import { historyMessage, historyShape } from './history-shape.ts';
import { lastHourMessage, routeFigureShapes, routeHistoryShape } from './route-shapes.ts';
import { buildShape, deploymentShape, environmentShape, workerShape } from './shapes.ts';
import { workerStartShape } from './worker-start.ts';
import type { Fields } from './fields.ts';
import type * as Schema from './gen/schema.ts';
import { present } from './message-values.ts';

export function endpointFields({ calls, call, change, contentsOf, shape, endpointsOf }: Fields) {
  async function environments(): Promise<Schema.Environment[]> {
    const found = (await call((control) => control.listEnvironments, {})).environments;
    return found.map((info) => environmentShape(info, async () => (await endpointsOf(info.name)).map(shape)));
  }

  return {
    environments,
    environment: async ({ name }) => (await environments()).find((environment) => environment.name === name) ?? null,
    endpoints: async ({ environment }) => (await endpointsOf(environment ?? '')).map(shape),
    endpoint: async ({ id, environment, name }) => {
      if ((id ?? null) === null && (name ?? null) === null)
        throw new CapstanError('INVALID_ARGUMENT', 'endpoint: must be an id, or a name together with its environment', { field: 'id' });
      const found = await endpointsOf((id ?? null) === null ? (environment ?? 'default') : '');
      const info = found.find((each) => ((id ?? null) === null ? each.spec?.name === name : each.id === id));
      return info === undefined ? null : shape(info);
    },
    builds: async ({ environment, endpoint }) =>
      (await call((control) => control.listBuilds, { environment: environment ?? '', endpoint: endpoint ?? '' })).builds.map(buildShape),
    buildDifference: async ({ from, to }) => {
      const [before, after] = [await contentsOf('from', from), await contentsOf('to', to)];
      return buildDifference(before, after);
    },
    deployments: async ({ environment, limit }) => {
      const request = { environment: environment ?? '', limit: whole('limit', limit ?? 0) };
      return (await call((control) => control.listDeployments, request)).deployments.map(deploymentShape);
    },
    workers: async ({ endpoint }) =>
      (await calls.all((control) => control.listWorkers, { endpointId: endpoint ?? '' })).flatMap(({ reply }) =>
        reply.workers.map(workerShape),
      ),
    history: async (args) => historyShape(await call((control) => control.getHistory, historyMessage(args))),
    routeHistory: async (args) =>
      routeHistoryShape(await call((control) => control.getHistory, { ...historyMessage(args), byRoute: true })),
    routeFigures: async ({ endpoint }) => {
      const now = Date.now();
      return routeFigureShapes(await call((control) => control.getHistory, lastHourMessage(endpoint, now)), now);
    },
    createEnvironment: async ({ name }) =>
      environmentShape(await change((control) => control.createEnvironment, { name }), () => Promise.resolve([])),
    deleteEnvironment: async ({ name, force, stopJobs }) => {
      const request = { name, force: force === true, stopJobs: stopJobs === true };
      return (await change((control) => control.deleteEnvironment, request)).endpoints.map(shape);
    },
    deploy: async ({ environment, build, endpoints, source, keep }) => {
      const request = {
        environment: environment ?? '',
        buildDigest: build,
        buildSize: 0,
        endpoints: [...endpoints],
        source: source ?? undefined,
        keep: (keep ?? []).map(({ endpoint, settings, env }) => ({ endpoint, settings: [...settings], env: [...env] })),
      };
      const deployed = await change((control) => control.deploy, request);
      return { environment: deployed.environment, endpoints: deployed.endpoints.map(shape) };
    },
    updateEndpoint: async ({ endpoint, settings }) =>
      shape(await change((control) => control.updateEndpoint, { endpointId: endpoint, patch: patchOf(settings) })),
    startWorker: async ({ endpoint }) => workerStartShape(await change((control) => control.startWorker, { endpointId: endpoint })),
    deleteEndpoint: async ({ environment, endpoint, stopJobs }) => {
      const { endpoints } = await change((control) => control.undeploy, {
        environment: environment ?? '',
        endpoints: [endpoint],
        stopJobs: stopJobs === true,
        all: false,
      });
      return shape(present(endpoints[0], 'endpoint'));
    },
    deleteEndpoints: async ({ environment, stopJobs }) => {
      const request = { environment, endpoints: [], stopJobs: stopJobs === true, all: true };
      return (await change((control) => control.undeploy, request)).endpoints.map(shape);
    },
    rollback: async ({ environment, endpoint, build }) => {
      const request = { environment: environment ?? '', endpoint: endpoint ?? '', build: build ?? '' };
      const deployed = await change((control) => control.rollback, request);
      return { environment: deployed.environment, endpoints: deployed.endpoints.map(shape) };
    },
  } satisfies Partial<Schema.Root>;
}

function patchOf({ rateLimits, env, unsetEnv, ...settings }: Schema.EndpointSettings): EndpointPatch {
  const names = UPDATABLE_PLAIN_NAMES.filter((name) => (settings[name] ?? null) !== null);
  // Compiles only if the message has every setting that may be changed.
  const fields = names.map((name): [keyof EndpointPatch, unknown] => [fieldOf(name), checkSetting(name, name, settings[name])]);
  const limits = (rateLimits ?? []).map(({ operation, requests, concurrent }) => [operation, { requests, concurrent }] as const);
  checkSetting('rateLimits', 'rateLimits', Object.fromEntries(limits));
  return EndpointPatch.fromPartial({
    ...Object.fromEntries(fields),
    rateLimits: Object.fromEntries(limits),
    env: textsOf(env),
    unsetEnv: [...(unsetEnv ?? [])],
  });
}

function textsOf(env: unknown): Record<string, string> {
  if (env === undefined || env === null) return {};
  const refuse = (): never => {
    throw new CapstanError('INVALID_ARGUMENT', 'env: must be an object of strings', { field: 'env' });
  };
  if (typeof env !== 'object' || Array.isArray(env)) return refuse();
  const entries = Object.entries(env);
  return entries.every((entry): entry is [string, string] => typeof entry[1] === 'string') ? Object.fromEntries(entries) : refuse();
}
