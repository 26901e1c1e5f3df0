/** The settings of an endpoint as `capstan endpoints get` prints them. */
import { DEFAULT_VALUES, READABLE_NAMES, type PlainName, type ReadableName, type SettingValues } from '../../lib/endpoint-settings.ts';
import type { AllSettings } from '../../client/graphql/gen/operations.ts';

/** Names in the tool's JSON that differ from the settings' own. */
const PRINTED_NAMES = { imageName: 'image', gpuIds: 'gpu', idleTimeout: 'idleTimeoutS' } as const;

type PrintedName<Name extends string> = Name extends keyof typeof PRINTED_NAMES ? (typeof PRINTED_NAMES)[Name] : Name;
/** The endpoint's row has the numbers of workers. */
type ShownName = Exclude<ReadableName & PlainName, 'workersMin' | 'workersMax'>;

/** Every setting that can be read. */
export type ShownSettings = { readonly [Name in ShownName as PrintedName<Name>]: SettingValues[Name] } & {
  readonly rateLimits: AllSettings['rateLimits'];
};

const SHOWN_NAMES = READABLE_NAMES.filter(
  (name): name is ShownName => name !== 'workersMin' && name !== 'workersMax' && name !== 'rateLimits',
);

/** Returns the settings by their names in the tool's JSON. */
export function shownSettings(settings: AllSettings): ShownSettings {
  const shown = Object.fromEntries(SHOWN_NAMES.map((name) => [printed(name), settings[name]]));
  return { ...(shown as Omit<ShownSettings, 'rateLimits'>), rateLimits: settings.rateLimits };
}

/** Returns name and value of each setting that is not the default and not in `printedNames`, as people read them. */
export function otherSettings(settings: ShownSettings, printedNames: readonly (keyof ShownSettings)[]): [name: string, value: string][] {
  const all: Readonly<Record<string, unknown>> = settings;
  return SHOWN_NAMES.flatMap((name): [string, string][] => {
    const value = all[printed(name)];
    if (printedNames.some((each) => each === printed(name)) || value === DEFAULT_VALUES[name]) return [];
    return [[name, Array.isArray(value) ? value.join(', ') : String(value)]];
  });
}

function printed(name: ShownName): string {
  return Object.hasOwn(PRINTED_NAMES, name) ? PRINTED_NAMES[name as keyof typeof PRINTED_NAMES] : name;
}
