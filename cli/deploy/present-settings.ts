/** Says, before a deployment, which settings it changes that were changed elsewhere, and keeps them on request. */
import { CapstanError } from '../../lib/errors.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { LIST_DEPLOYED_SETTINGS } from '../../client/graphql/gen/operations.ts';
import { confirm } from '../../terminal/confirm.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { changedElsewhere, envNamesOf, linesOf, namesOf, type ChangedElsewhere, type LastDeployment } from './changed-elsewhere.ts';
import type { EndpointFacts } from './difference.ts';
import { retrying, type Deployment, type KeptOfEndpoint } from './deploy.ts';
import { declaredEndpoints, existingEndpoints, type ExistingEndpoint } from './endpoint-facts.ts';

type Compared = Pick<Deployment, 'application' | 'artifact' | 'environment'>;

/** An endpoint as it is, and as a deployment would leave it. */
export interface Update {
  readonly present: ExistingEndpoint;
  readonly wanted: EndpointFacts;
}

export function updatesOf(existing: readonly ExistingEndpoint[], declared: readonly EndpointFacts[]): Update[] {
  return declared.flatMap((wanted) => {
    const present = existing.find(({ name }) => name === wanted.name);
    return present === undefined ? [] : [{ present, wanted }];
  });
}

/** Reads what was changed elsewhere. */
export async function findChangedElsewhere(
  client: GatewayClient,
  environment: string,
  updates: readonly Update[],
): Promise<readonly ChangedElsewhere[]> {
  const found = await Promise.all(
    updates.map(async ({ wanted, present }) => {
      const last = await lastDeployment(client, environment, present);
      return last === undefined ? undefined : changedElsewhere(present, last, wanted);
    }),
  );
  return found.filter((each) => each !== undefined);
}

/**
 * Returns nothing, with a warning, where the service cannot say: one of an earlier version, or one that cannot read the
 * present environment, which a deployment replaces. What is to be kept must be known.
 */
export async function orUnknown(
  work: () => Promise<readonly ChangedElsewhere[]>,
  { isKeeping, terminal }: Pick<KeepOptions, 'isKeeping' | 'terminal'>,
): Promise<readonly ChangedElsewhere[]> {
  try {
    return await work();
  } catch (error) {
    const isUnknown = error instanceof CapstanError && (error.code === 'DATA_DIR' || /"(?:keptSettings|keptEnv)"/.test(error.message));
    if (!isUnknown || isKeeping) throw error;
    terminal.warn(`settings that were changed after the last deployment are not known: ${error.message}`);
    return [];
  }
}

async function changesOf(client: GatewayClient, deployment: Compared): Promise<readonly ChangedElsewhere[]> {
  const { endpoints, defaultMaxAttempts } = await existingEndpoints(client, deployment.environment);
  return findChangedElsewhere(client, deployment.environment, updatesOf(endpoints, declaredEndpoints(deployment, defaultMaxAttempts)));
}

async function lastDeployment(
  client: GatewayClient,
  environment: string,
  { id, name }: ExistingEndpoint,
): Promise<LastDeployment | undefined> {
  const { builds } = await client.query(LIST_DEPLOYED_SETTINGS, { environment, endpoint: id });
  const last = builds.find(({ current }) => current.includes(name))?.settings;
  return last === undefined || last === null ? undefined : { ...last, settings: { ...last.settings } };
}

export interface KeepOptions {
  /** `--keep-settings` */
  readonly isKeeping: boolean;
  /** A person answers. */
  readonly isAsking: boolean;
  readonly terminal: Terminal;
}

/**
 * Prints what was changed elsewhere and returns what the deployment keeps. Without a terminal the deployment goes on: what
 * the project declares holds. @throws ToolError CONFLICT if the person does not agree.
 */
export async function settingsToKeep(
  client: GatewayClient,
  deployment: Compared,
  { isKeeping, isAsking, terminal }: KeepOptions,
): Promise<readonly KeptOfEndpoint[]> {
  const found = await orUnknown(
    () =>
      retrying(
        () => changesOf(client, deployment),
        terminal,
        () => 0,
      ),
    { isKeeping, terminal },
  );
  if (found.length === 0) return [];
  if (isKeeping) {
    for (const each of found) terminal.done(`${each.endpoint} keeps its present ${namesOf(each)}`);
    return found.map((each) => ({ endpoint: each.endpoint, settings: Object.keys(each.settings), env: envNamesOf(each) }));
  }
  for (const each of found) {
    terminal.warn(`${each.endpoint}: this deployment replaces settings that were changed after its last deployment`);
    for (const line of linesOf(each)) terminal.line(`    ${line}`);
  }
  const hint = '--keep-settings keeps the present values.';
  if (isAsking) await confirm('Replace them?', terminal, `Press y to replace them; --yes does not ask. ${hint}`);
  else terminal.hint(hint);
  return [];
}
