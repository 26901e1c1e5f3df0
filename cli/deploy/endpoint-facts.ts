/** The two sides that a deployment is compared by: the endpoints of an environment, and those that a folder declares. */
import { READABLE_NAMES } from '../../lib/endpoint-settings.ts';
import { CapstanError } from '../../lib/errors.ts';
import { deployedSettings } from '../../lib/normal-settings.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { EndpointSpec } from '../../proto/gen/capstan/v1/control.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { LIST_DEPLOYED_FACTS, LIST_EARLIER_FACTS } from '../../client/graphql/gen/operations.ts';
import { needsArtifact, type Deployment } from './deploy.ts';
import { comparedSettings, type EndpointFacts } from './difference.ts';

export interface ExistingEndpoint extends EndpointFacts {
  readonly id: string;
}

export interface Existing {
  /** None for an environment that does not exist. */
  readonly endpoints: readonly ExistingEndpoint[];
  /** The attempts of an endpoint that sets none. */
  readonly defaultMaxAttempts: number;
}

/** Reads the endpoints of an environment. */
export async function existingEndpoints(client: GatewayClient, environment: string): Promise<Existing> {
  const { endpoints } = await client.query(LIST_DEPLOYED_FACTS, { environment }).catch(async (error: unknown) => {
    // A gateway of an earlier version does not know the field.
    if (!(error instanceof CapstanError) || !error.message.includes('"defaultMaxAttempts"')) throw error;
    const known = await client.query(LIST_EARLIER_FACTS, { environment });
    return { endpoints: known.endpoints.map((endpoint) => ({ ...endpoint, defaultMaxAttempts: 0 })) };
  });
  const facts = endpoints.map(({ id, name, kind, build, routes, functions, settings, envNames }): ExistingEndpoint => ({
    id,
    name,
    kind: kind === 'QUEUE' ? 'queue' : 'load-balanced',
    build: build?.digest ?? '',
    routes: Object.fromEntries(routes.map(({ method, path, function: fn }) => [`${method} ${path}`, fn])),
    functions,
    envNames,
    settings: comparedSettings(settings, READABLE_NAMES),
  }));
  return { endpoints: facts, defaultMaxAttempts: endpoints[0]?.defaultMaxAttempts ?? 0 };
}

/** Returns the endpoints of a deployment, with the settings that the service would give them. */
export function declaredEndpoints(
  { application, artifact }: Pick<Deployment, 'application' | 'artifact'>,
  defaultMaxAttempts: number,
): readonly EndpointFacts[] {
  const build = needsArtifact(application) ? artifact.digest : '';
  return application.endpoints.map(({ spec }): EndpointFacts => {
    const isBalanced = spec.kind === EndpointKind.LOAD_BALANCED;
    const settings = deployedSettings(isBalanced ? 'LOAD_BALANCED' : 'QUEUE', {
      ...spec,
      maxAttempts: spec.maxAttempts || defaultMaxAttempts,
    });
    return {
      name: spec.name,
      kind: isBalanced ? 'load-balanced' : 'queue',
      build,
      routes: spec.routes,
      functions: spec.functions.map(({ name }) => name),
      envNames: Object.keys(spec.env).sort(),
      settings: comparedSettings({ ...settings, rateLimits: limitsOf(spec) }, READABLE_NAMES),
    };
  });
}

/** A manifest may leave out one of the two. */
function limitsOf({ rateLimits }: EndpointSpec): object {
  const entries = Object.entries(rateLimits).map(
    ([operation, { requests, concurrent }]: [string, { requests?: number; concurrent?: number }]) => [
      operation,
      { requests: requests ?? 0, concurrent: concurrent ?? 0 },
    ],
  );
  return Object.fromEntries(entries) as object;
}
