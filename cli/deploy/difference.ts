/** What a deployment would change: endpoints with their settings and environment names, files, packages. Pure. */

import { isDeepStrictEqual } from 'node:util';

/** One side of the comparison. */
export interface EndpointFacts {
  readonly name: string;
  readonly kind: 'queue' | 'load-balanced';
  readonly settings: Readonly<Record<string, unknown>>;
  readonly envNames: readonly string[];
  /** Route → function. */
  readonly routes: Readonly<Record<string, string>>;
  readonly functions: readonly string[];
  /** Digest of its build; empty without one. */
  readonly build: string;
}

export interface NameChanges {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
}

export interface EndpointChange {
  readonly name: string;
  /** `none`: the deployment leaves the endpoint as it is. */
  readonly change: 'create' | 'update' | 'none';
  readonly settings: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>;
  /** Names only: values are secret. */
  readonly env: { readonly added: readonly string[]; readonly removed: readonly string[] };
  readonly routes: NameChanges;
  readonly functions: { readonly added: readonly string[]; readonly removed: readonly string[] };
}

/** Whether two values of a setting are the same, whatever the order of an object's members. */
export function isSameValue(one: unknown, other: unknown): boolean {
  return isDeepStrictEqual(one ?? null, other ?? null);
}

export function changesBetween(before: Readonly<Record<string, unknown>>, after: Readonly<Record<string, unknown>>): NameChanges {
  const same = (name: string): boolean => isSameValue(before[name], after[name]);
  return {
    added: Object.keys(after).filter((name) => !Object.hasOwn(before, name)),
    changed: Object.keys(after).filter((name) => Object.hasOwn(before, name) && !same(name)),
    removed: Object.keys(before).filter((name) => !Object.hasOwn(after, name)),
  };
}

/** Compares an endpoint of the folder with the deployed one; `deployed` is undefined for a new one. */
export function endpointChange(deployed: EndpointFacts | undefined, wanted: EndpointFacts): EndpointChange {
  const known: Readonly<Record<string, unknown>> = deployed?.settings ?? {};
  const settings = Object.fromEntries(
    Object.entries(wanted.settings)
      .filter(([name, to]) => deployed !== undefined && !isSameValue(known[name], to))
      .map(([name, to]) => [name, { from: known[name], to }]),
  );
  const env = listChanges(deployed?.envNames ?? [], wanted.envNames);
  const routes = changesBetween(deployed?.routes ?? {}, wanted.routes);
  const functions = listChanges(deployed?.functions ?? [], wanted.functions);
  const lists = [routes.added, routes.changed, routes.removed, env.added, env.removed, functions.added, functions.removed];
  const isSame =
    deployed !== undefined &&
    deployed.kind === wanted.kind &&
    deployed.build === wanted.build &&
    Object.keys(settings).length === 0 &&
    lists.every((list) => list.length === 0);
  return { name: wanted.name, change: deployed === undefined ? 'create' : isSame ? 'none' : 'update', settings, env, routes, functions };
}

function listChanges(before: readonly string[], after: readonly string[]): { added: readonly string[]; removed: readonly string[] } {
  return { added: after.filter((each) => !before.includes(each)), removed: before.filter((each) => !after.includes(each)) };
}

/** The settings that are compared, by name. */
export function comparedSettings(values: object, names: readonly string[]): Record<string, unknown> {
  const all: Readonly<Record<string, unknown>> = { ...values };
  return Object.fromEntries(names.map((name) => [name, all[name]]));
}
