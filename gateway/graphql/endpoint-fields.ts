/** Fields of environments, endpoints, their releases and their figures. */
import { fieldOf, UPDATABLE_PLAIN_NAMES, type UpdatablePlainName } from '../../lib/endpoint-settings.ts';
import { CapstanError } from '../../lib/errors.ts';
import { EndpointPatch, type EndpointSpec, type RateLimit } from '../../proto/gen/capstan/v1/control.ts';
import { checkSetting, whole } from './endpoint-form.ts';
import { historyMessage, historyShape, type HistoryArguments } from './history-shape.ts';
import { lastHourMessage, routeFigureShapes, routeHistoryShape } from './route-shapes.ts';
import { buildShape, deploymentShape, environmentShape, workerShape } from './shapes.ts';
import { workerStartShape } from './worker-start.ts';
import type { Fields } from './fields.ts';
import type { Optional } from './pages.ts';

/** The input EndpointSettings; the schema has checked the types. */
interface Settings extends Partial<Record<UpdatablePlainName, unknown>> {
  readonly rateLimits?: readonly (RateLimit & { readonly operation: string })[] | null;
  readonly env?: unknown;
  readonly unsetEnv?: readonly string[] | null;
}

export function endpointFields({ calls, call, change, shape, endpointsOf }: Fields) {
  async function environments(): Promise<(object & { readonly name: string })[]> {
    const found = (await call((control) => control.listEnvironments, {})).environments;
    return found.map((info) => ({ name: info.name, ...environmentShape(info, async () => (await endpointsOf(info.name)).map(shape)) }));
  }

  return {
    environments,
    environment: async ({ name }: { name: string }) => (await environments()).find((environment) => environment.name === name) ?? null,
    endpoints: async ({ environment }: { environment?: Optional<string> }) => (await endpointsOf(environment ?? '')).map(shape),
    endpoint: async ({ id, environment, name }: { id?: Optional<string>; environment?: Optional<string>; name?: Optional<string> }) => {
      if ((id ?? null) === null && (name ?? null) === null)
        throw new CapstanError('INVALID_ARGUMENT', 'endpoint: must be an id, or a name together with its environment', { field: 'id' });
      const found = await endpointsOf((id ?? null) === null ? (environment ?? 'default') : '');
      const info = found.find((each) => ((id ?? null) === null ? each.spec?.name === name : each.id === id));
      return info === undefined ? null : shape(info);
    },
    builds: async ({ environment, endpoint }: { environment?: Optional<string>; endpoint?: Optional<string> }) =>
      (await call((control) => control.listBuilds, { environment: environment ?? '', endpoint: endpoint ?? '' })).builds.map(buildShape),
    deployments: async ({ environment, limit }: { environment?: Optional<string>; limit?: Optional<number> }) => {
      const request = { environment: environment ?? '', limit: whole('limit', limit ?? 0) };
      return (await call((control) => control.listDeployments, request)).deployments.map(deploymentShape);
    },
    workers: async ({ endpoint }: { endpoint?: Optional<string> }) =>
      (await calls.all((control) => control.listWorkers, { endpointId: endpoint ?? '' })).flatMap(({ reply }) =>
        reply.workers.map(workerShape),
      ),
    history: async (given: HistoryArguments) => historyShape(await call((control) => control.getHistory, historyMessage(given))),
    routeHistory: async (given: HistoryArguments) =>
      routeHistoryShape(await call((control) => control.getHistory, { ...historyMessage(given), byRoute: true })),
    routeFigures: async ({ endpoint }: { endpoint: string }) => {
      const now = Date.now();
      return routeFigureShapes(await call((control) => control.getHistory, lastHourMessage(endpoint, now)), now);
    },
    createEnvironment: async ({ name }: { name: string }) =>
      environmentShape(await change((control) => control.createEnvironment, { name }), () => Promise.resolve([])),
    deleteEnvironment: async (asked: { name: string; force: boolean; stopJobs: boolean }) =>
      (await change((control) => control.deleteEnvironment, asked)).endpoints.map(shape),
    deploy: async ({ environment, build, endpoints }: { environment?: Optional<string>; build: string; endpoints: EndpointSpec[] }) => {
      const request = { environment: environment ?? '', buildDigest: build, buildSize: 0, endpoints };
      const deployed = await change((control) => control.deploy, request);
      return { environment: deployed.environment, endpoints: deployed.endpoints.map(shape) };
    },
    updateEndpoint: async ({ endpoint, settings }: { endpoint: string; settings: Settings }) =>
      shape(await change((control) => control.updateEndpoint, { endpointId: endpoint, patch: patchOf(settings) })),
    startWorker: async ({ endpoint }: { endpoint: string }) =>
      workerStartShape(await change((control) => control.startWorker, { endpointId: endpoint })),
    deleteEndpoint: async ({
      environment,
      endpoint,
      stopJobs,
    }: {
      environment?: Optional<string>;
      endpoint: string;
      stopJobs: boolean;
    }) => {
      const { endpoints } = await change((control) => control.undeploy, {
        environment: environment ?? '',
        endpoints: [endpoint],
        stopJobs,
        all: false,
      });
      return endpoints.map(shape)[0];
    },
    deleteEndpoints: async ({ environment, stopJobs }: { environment: string; stopJobs: boolean }) =>
      (await change((control) => control.undeploy, { environment, endpoints: [], stopJobs, all: true })).endpoints.map(shape),
    rollback: async ({
      environment,
      endpoint,
      build,
    }: {
      environment?: Optional<string>;
      endpoint?: Optional<string>;
      build?: Optional<string>;
    }) => {
      const request = { environment: environment ?? '', endpoint: endpoint ?? '', build: build ?? '' };
      const deployed = await change((control) => control.rollback, request);
      return { environment: deployed.environment, endpoints: deployed.endpoints.map(shape) };
    },
  };
}

function patchOf({ rateLimits, env, unsetEnv, ...settings }: Settings): EndpointPatch {
  const given = UPDATABLE_PLAIN_NAMES.filter((name) => (settings[name] ?? null) !== null);
  // Compiles only if the message has every setting that may be changed.
  const fields = given.map((name): [keyof EndpointPatch, unknown] => [fieldOf(name), checkSetting(name, name, settings[name])]);
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
