/** Settings that were changed after an endpoint's last deployment, and that a deployment would change again. Pure. */
import { UPDATABLE_NAMES } from '../../lib/endpoint-settings.ts';
import { isSameValue, type EndpointFacts, type NameChanges } from './difference.ts';

type Facts = Pick<EndpointFacts, 'settings' | 'envNames'>;

/** What the last deployment set. */
export interface LastDeployment extends Facts {
  /** Environment values that are others now. */
  readonly envChanged: readonly string[];
  /** What it did not set, but kept as it found it. */
  readonly keptSettings: readonly string[];
  readonly keptEnv: readonly string[];
}

export interface ChangedElsewhere {
  readonly endpoint: string;
  /** From the present value to that of the deployment. */
  readonly settings: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>;
  /** Names only: values are secret. `changed` may be the same value. */
  readonly env: NameChanges;
}

/** Compares an endpoint with what its last deployment set and this one would set; undefined if nothing of others would be changed. */
export function changedElsewhere(
  present: Facts,
  last: LastDeployment,
  wanted: Facts & { readonly name: string },
): ChangedElsewhere | undefined {
  const names = UPDATABLE_NAMES.filter((name) => Object.hasOwn(wanted.settings, name));
  const settings = names.flatMap((name) => {
    const [from, to] = [present.settings[name], wanted.settings[name]];
    const isOfOthers = last.keptSettings.includes(name) || !isSameValue(from, last.settings[name]);
    return isOfOthers && !isSameValue(from, to) ? [[name, { from, to }] as const] : [];
  });
  const isOfOthers = (name: string): boolean =>
    last.keptEnv.includes(name) || last.envChanged.includes(name) || present.envNames.includes(name) !== last.envNames.includes(name);
  const has = present.envNames.filter(isOfOthers);
  const env = {
    added: wanted.envNames.filter((name) => !present.envNames.includes(name) && isOfOthers(name)),
    changed: has.filter((name) => wanted.envNames.includes(name)),
    removed: has.filter((name) => !wanted.envNames.includes(name)),
  };
  if (settings.length + env.added.length + env.changed.length + env.removed.length === 0) return undefined;
  return { endpoint: wanted.name, settings: Object.fromEntries(settings), env };
}

/** Returns what a deployment would set that keeps the present values of these settings. */
export function withKept(wanted: EndpointFacts, kept: ChangedElsewhere | undefined): EndpointFacts {
  if (kept === undefined) return wanted;
  const present = Object.entries(kept.settings).map(([name, { from }]) => [name, from]);
  const envNames = [...wanted.envNames.filter((name) => !kept.env.added.includes(name)), ...kept.env.removed].sort();
  return { ...wanted, envNames, settings: { ...wanted.settings, ...(Object.fromEntries(present) as object) } };
}

/** Returns one line for each setting, without the values of the environment. */
export function linesOf({ settings, env }: ChangedElsewhere): string[] {
  return [
    ...Object.entries(settings).map(([name, { from, to }]) => `${name}: ${shownValue(from)} → ${shownValue(to)}`),
    ...env.added.map((name) => `env ${name}: (removed) → value of this deployment`),
    ...env.changed.map((name) => `env ${name}: present value → value of this deployment`),
    ...env.removed.map((name) => `env ${name}: present value → (removed)`),
  ];
}

export function shownValue(value: unknown): string {
  return value === '' || value === undefined || value === null ? '(none)' : JSON.stringify(value);
}

/** Returns all names, such as `workersMax, env MODE`. */
export function namesOf({ settings, env }: ChangedElsewhere): string {
  return [...Object.keys(settings), ...envNamesOf({ env }).map((name) => `env ${name}`)].join(', ');
}

export function envNamesOf({ env }: Pick<ChangedElsewhere, 'env'>): string[] {
  return [...env.added, ...env.changed, ...env.removed];
}
