/**
 * Parses the deployment form of an endpoint from a caller's JSON: the JSON form of the message EndpointSpec. The
 * generated reader would convert some values (the text "false" to true, an object to a name) and ignore unknown keys;
 * both are rejected by name here.
 */
import {
  DEFAULT_VALUES,
  ENDPOINT_SETTINGS,
  fieldOf,
  isAbsent,
  PLAIN_NAMES,
  settingViolation,
  type SettingName,
} from '../../lib/endpoint-settings.ts';
import { CapstanError } from '../../lib/errors.ts';
import { ruleViolation } from '../../lib/setting-rules.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { EndpointSpec } from '../../proto/gen/capstan/v1/control.ts';
import { EndpointSpec as EndpointForm } from '../../proto/gen/json/capstan/v1/control.ts';
import { CallStyle } from '../../proto/gen/capstan/v1/nodes.ts';

/** Numbers of the messages are unsigned, 32 bits. */
const MAX_NUMBER = 4_294_967_295;
const NAMED = 20;

type Check = (field: string, value: unknown) => void;

const text: Check = (field, value) => {
  if (typeof value !== 'string') throw refuse(field, 'must be a string');
};
const flag: Check = (field, value) => {
  if (typeof value !== 'boolean') throw refuse(field, 'must be true or false');
};
const limit: Check = (field, value) => {
  const violation = ruleViolation({ type: 'integer', min: 0, max: ENDPOINT_SETTINGS.rateLimits.rule.max }, value);
  if (violation !== null) throw refuse(field, violation.rule);
};

const signature: Readonly<Record<string, Check>> = {
  parameters: listOf(objectOf({ name: text, required: flag, type: text, schema: text, takesBody: flag, defaultValue: text })),
  callStyle: oneOf(Object.values(CallStyle)),
};

/** Fields that are not settings, and tables whose keys the scheduler checks. */
const structure: Readonly<Record<string, Check>> = {
  name: text,
  kind: oneOf(Object.values(EndpointKind)),
  functions: listOf(
    objectOf({
      name: text,
      module: text,
      description: text,
      ...signature,
      classSpec: objectOf({ methods: listOf(objectOf({ name: text, ...signature })) }),
    }),
  ),
  routes: mapOf(text),
  env: mapOf(text),
  rateLimits: mapOf(objectOf({ requests: limit, concurrent: limit })),
};
const forms: Readonly<Record<string, Check>> = {
  ...structure,
  ...Object.fromEntries(
    PLAIN_NAMES.map((name) => [fieldOf(name), (field: string, value: unknown) => void checkSetting(name, field, value)]),
  ),
};
const checkForm = objectOf(forms);

/** INVALID_ARGUMENT names the field and the rule. */
export function readSpec(value: unknown): EndpointSpec {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refuse('endpoints', 'must contain objects');
  const form = Object.fromEntries(Object.entries(value).map(([key, inner]) => [formKey(key), inner as unknown]));
  checkForm('endpoints', form);
  // In the message, 0 would mean a paused endpoint.
  return EndpointForm.fromJSON({ ...form, workersMax: form['workersMax'] ?? DEFAULT_VALUES.workersMax });
}

/**
 * Returns a value that the setting's rule permits, or that stands for the default. `field` is its path in the request.
 */
export function checkSetting(name: SettingName, field: string, value: unknown): unknown {
  const violation = isAbsent(name, value) ? null : settingViolation(name, value);
  if (violation !== null) throw refuse(`${field}${violation.path}`, violation.rule);
  return value;
}

/** Returns a number that a message can hold. */
export function whole(field: string, value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_NUMBER) return value;
  throw refuse(field, typeof value === 'number' && value < 0 ? 'must not be negative' : `must be an integer of at most ${MAX_NUMBER}`);
}

/** The JSON form of a message has its own names beside those of the settings (`idleTimeout`, `public`). */
function formKey(key: string): string {
  const name = PLAIN_NAMES.find((each) => each === key);
  if (name !== undefined) return fieldOf(name);
  return key.replaceAll(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
}

/** Rejects keys that the form does not have; null stands for an absent key. */
function objectOf(checks: Readonly<Record<string, Check>>): Check {
  return (field, value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refuse(field, 'must be an object');
    for (const [key, inner] of Object.entries(value)) {
      const check = Object.hasOwn(checks, key) ? checks[key] : undefined;
      if (check === undefined)
        throw refuse(field, `has no field ${JSON.stringify(key.slice(0, NAMED))}; the fields are ${Object.keys(checks).join(', ')}`);
      if (inner !== null && inner !== undefined) check(`${field}.${key}`, inner);
    }
  };
}

function listOf(check: Check): Check {
  return (field, value) => {
    if (!Array.isArray(value)) throw refuse(field, 'must be an array');
    for (const [index, inner] of value.entries()) check(`${field}[${index}]`, inner);
  };
}

/** The scheduler checks the names of its keys. */
function mapOf(check: Check): Check {
  return (field, value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refuse(field, 'must be an object');
    for (const [key, inner] of Object.entries(value)) check(`${field}[${JSON.stringify(key)}]`, inner);
  };
}

function oneOf(values: readonly string[]): Check {
  const known = values.filter((each) => each !== 'UNRECOGNIZED');
  return (field, value) => {
    if (typeof value !== 'string' || !known.includes(value)) throw refuse(field, `must be one of ${known.join(', ')}`);
  };
}

function refuse(field: string, rule: string): CapstanError {
  return new CapstanError('INVALID_ARGUMENT', `${field}: ${rule}`, { field });
}
