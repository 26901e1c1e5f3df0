/** What a deployment keeps of the present settings of its endpoints: settings that were changed after the deployment before. */
import { fieldOf, UPDATABLE_NAMES, UPDATABLE_PLAIN_NAMES } from '../../lib/endpoint-settings.ts';
import { CapstanError } from '../../lib/errors.ts';
import type { EndpointSpec, KeptSettings, ReleasedSettings } from '../../proto/gen/capstan/v1/control.ts';
import type { KeptNames } from '../core/state/control-rows.ts';

const KEEPABLE: readonly string[] = UPDATABLE_NAMES.filter((name) => name !== 'env');

/** Validates what is to be kept, and leaves out what is empty. @throws CapstanError INVALID_ARGUMENT */
export function keptNames(keep: readonly KeptSettings[], specs: readonly EndpointSpec[]): KeptSettings[] {
  const endpoints = new Set<string>();
  for (const { endpoint, settings } of keep) {
    if (!specs.some(({ name }) => name === endpoint))
      throw invalid('keep.endpoint', `${JSON.stringify(endpoint)} must be an endpoint of the deployment`);
    if (endpoints.has(endpoint)) throw invalid('keep.endpoint', `${JSON.stringify(endpoint)} is listed twice`);
    endpoints.add(endpoint);
    const unknown = settings.find((name) => !KEEPABLE.includes(name));
    if (unknown !== undefined) throw invalid('keep.settings', `${JSON.stringify(unknown)} must be one of ${KEEPABLE.join(', ')}`);
  }
  return keep.filter(({ settings, env }) => settings.length + env.length > 0);
}

/** Returns the spec with the present values of what is kept. */
export function withPresent(
  spec: EndpointSpec,
  kept: { readonly names: KeptNames; readonly present: EndpointSpec } | undefined,
): EndpointSpec {
  if (kept === undefined) return spec;
  const { names, present } = kept;
  const fields = UPDATABLE_PLAIN_NAMES.filter((name) => names.settings.includes(name)).map(fieldOf);
  const { rateLimits } = names.settings.includes('rateLimits') ? present : spec;
  const env = Object.entries(spec.env).filter(([name]) => !names.env.includes(name));
  const presentEnv = Object.entries(present.env).filter(([name]) => names.env.includes(name));
  return {
    ...spec,
    ...Object.fromEntries(fields.map((field) => [field, present[field]])),
    rateLimits,
    env: Object.fromEntries([...env, ...presentEnv]),
  };
}

export function keptMessage(kept: KeptNames | undefined): Pick<ReleasedSettings, 'keptSettings' | 'keptEnv'> {
  return { keptSettings: [...(kept?.settings ?? [])], keptEnv: [...(kept?.env ?? [])] };
}

function invalid(field: string, rule: string): CapstanError {
  return new CapstanError('INVALID_ARGUMENT', `${field}: ${rule}`, { field });
}
