/** The settings of an endpoint as the service keeps them: what was left out has its default. Pure. */
import { DEFAULT_VALUES, isAbsent, PLAIN_NAMES, valuesOf, type EndpointKindName, type SettingValues } from './endpoint-settings.ts';
import type { EndpointSpec } from '../proto/gen/capstan/v1/control.ts';

export function normalSettings(
  kind: EndpointKindName,
  values: SettingValues,
): SettingValues & { readonly scalerType: 'QUEUE_DELAY' | 'REQUEST_COUNT' } {
  return {
    ...values,
    gpuCount: values.gpuIds === '' ? 0 : Math.max(1, values.gpuCount),
    packages: [...new Set(values.packages)].sort(),
    scalerType: values.scalerType === '' ? (kind === 'QUEUE' ? 'QUEUE_DELAY' : 'REQUEST_COUNT') : values.scalerType,
  };
}

/** Returns the settings that a deployment sets, without any check of their values. */
export function deployedSettings(kind: EndpointKindName, spec: EndpointSpec): SettingValues {
  const values: Readonly<Record<string, unknown>> = valuesOf(spec);
  const set = PLAIN_NAMES.filter((name) => !isAbsent(name, values[name]));
  return normalSettings(kind, { ...DEFAULT_VALUES, ...Object.fromEntries(set.map((name) => [name, values[name]])) });
}
