/** Compares an endpoint's present settings with those that a rollback restores. Pure. */
import type { AllSettings, Released } from '../../api/graphql/gen/operations.ts';
import type { EndpointData } from './query.ts';
import { shown, valuesOf } from './setting-names.ts';

export interface Difference {
  readonly name: string;
  /** Empty: there is none. */
  readonly now: string;
  readonly earlier: string;
}

type Present = Pick<EndpointData, 'routes' | 'envNames'>;

/** Lists settings, routes and names of environment values that differ. Undefined where the earlier ones are not known. */
export function differencesOf(
  { routes, envNames }: Present,
  settings: AllSettings | undefined,
  released: Released | null,
): readonly Difference[] | undefined {
  if (released === null || settings === undefined) return undefined;
  return [
    ...compared(mapOf(settings), mapOf(released.settings)),
    ...compared(routeMap(routes), routeMap(released.routes)),
    ...compared(envMap(envNames), envMap(released.envNames)),
    ...released.envChanged.map((name) => ({ name: `env ${name}`, now: 'present value', earlier: 'earlier value' })),
  ];
}

/** The same of two releases. Values of the environment are compared only with the present ones. */
export function differencesBetween(from: Released | null, to: Released | null): readonly Difference[] | undefined {
  if (from === null || to === null) return undefined;
  const differences = differencesOf(to, to.settings, { ...from, envChanged: [] });
  return differences?.map(({ name, now, earlier }) => ({ name, now: earlier, earlier: now }));
}

type Shown = ReadonlyMap<string, string>;

function mapOf(values: AllSettings): Shown {
  return new Map(Object.entries(valuesOf(values)).map(([name, value]) => [name, shown(value)]));
}

function routeMap(routes: EndpointData['routes']): Shown {
  return new Map(routes.map(({ method, path, function: name }) => [`route ${method} ${path}`, name]));
}

function envMap(names: readonly string[]): Shown {
  return new Map(names.map((name) => [`env ${name}`, 'set']));
}

function compared(now: Shown, then: Shown): Difference[] {
  return [...new Set([...now.keys(), ...then.keys()])]
    .map((name) => ({ name, now: now.get(name) ?? '', earlier: then.get(name) ?? '' }))
    .filter((each) => each.now !== each.earlier);
}
