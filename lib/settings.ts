/**
 * Reads the settings of every part: one zod schema whose fields name their environment variable and describe it in one
 * sentence, with the unit. The table in docs/configuration.md is generated from the same schemas.
 */
import type { z } from 'zod';

import { CapstanError } from './errors.ts';

/** A setting: its variable, its schema (which holds the default) and one sentence with the unit. */
export function setting<T extends z.ZodType>(env: string, schema: T, description: string): T {
  return schema.meta({ description, env });
}

/** Returns the variable of a setting; undefined for one that only code can set. */
export function variableOf(schema: z.ZodType): string | undefined {
  const env = schema.meta()?.['env'];
  return typeof env === 'string' && env !== '' ? env : undefined;
}

/**
 * Reads settings: `overrides` (flags, tests), then the environment, then the defaults; an empty variable counts as
 * absent. Throws CONFIG, which names the variable and the rule, never the value.
 */
export function readSettings<S extends z.ZodObject>(
  schema: S,
  overrides: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>>,
): Readonly<z.output<S>> {
  const given: Record<string, unknown> = {};
  for (const [key, field] of Object.entries<z.ZodType>(schema.shape)) {
    const name = variableOf(field);
    const value = overrides[key] ?? (name === undefined ? undefined : env[name]);
    if (value !== undefined && value !== '') given[key] = value;
  }
  const result = schema.safeParse(given);
  if (result.success) return Object.freeze(result.data);
  const issue = result.error.issues[0];
  const key = String(issue?.path[0] ?? '');
  const name = variableOf((schema.shape as Record<string, z.ZodType>)[key] as z.ZodType) ?? key;
  throw new CapstanError('CONFIG', `${name}: ${issue?.message ?? 'is not valid'}`, { field: name });
}
