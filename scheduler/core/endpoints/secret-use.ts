/** Which secret a name stands for, and what a release lacks. */
import type { State } from '../state.ts';
import { secretKey, type SecretRow } from '../state/control-rows.ts';
import type { EndpointRecord, Release } from '../state/endpoints.ts';

type Owner = Pick<SecretRow, 'account' | 'environment'>;

/** Returns the secret that a name stands for in an environment. */
export function secretFor(state: State, { account, environment }: Owner, name: string): SecretRow | undefined {
  return state.secrets.get(secretKey({ account, environment, name })) ?? state.secrets.get(secretKey({ account, environment: '', name }));
}

/** Returns the version of each secret that workers of a new release start with; 0 where there is none. Undefined without any. */
export function secretVersions(state: State, owner: Owner, names: readonly string[] | undefined): Release['secrets'] {
  if (names === undefined || names.length === 0) return undefined;
  return Object.fromEntries(names.map((name) => [name, secretFor(state, owner, name)?.version ?? 0]));
}

/** Returns the names of the secrets without which no worker of the endpoint's release can start. */
export function missingSecrets(state: State, { config }: EndpointRecord): string[] {
  const { secrets = {} } = state.releases.get(config.release) ?? {};
  return Object.keys(secrets).filter((name) => secretFor(state, config, name) === undefined);
}

export function explainMissing(names: readonly string[]): string {
  const [first = '', ...more] = names;
  const rest = more.length === 0 ? '' : ` and ${more.length} more`;
  return `secret ${first}${rest} ${more.length === 0 ? 'does' : 'do'} not exist; create it with: capstan secret set ${first}`;
}
