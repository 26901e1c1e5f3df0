/** Parses `key=value` as changes of an endpoint's settings (the schema's EndpointSettings). */
import { ENVIRONMENT_NAME, ENVIRONMENT_NAME_RULE } from '../../lib/environment-values.ts';
import { isAbsent, settingOf, settingViolation, UPDATABLE_PLAIN_NAMES, type UpdatablePlainName } from '../../lib/endpoint-settings.ts';
import { CapstanError } from '../../lib/errors.ts';
import { closest } from '../../terminal/closest.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import type { SettingRule } from '../../lib/setting-rules.ts';

const KNOWN = [...UPDATABLE_PLAIN_NAMES, 'env.<NAME>', 'rateLimits.<operation>'];

/** @throws CapstanError INVALID_ARGUMENT naming the key and the rule. */
export function readChanges(given: readonly string[]): Readonly<Record<string, unknown>> {
  const changes: Record<string, unknown> = {};
  const env: Record<string, string> = {};
  const unsetEnv: string[] = [];
  const rateLimits: { operation: string; requests: number; concurrent: number }[] = [];
  for (const text of given) {
    const at = text.indexOf('=');
    const key = at < 0 ? text : text.slice(0, at);
    const value = text.slice(at + 1);
    if (at < 0) throw refuse(key, 'must be key=value');
    if (key.startsWith('env.')) {
      const name = key.slice('env.'.length);
      if (!ENVIRONMENT_NAME.test(name)) throw refuse(key, ENVIRONMENT_NAME_RULE);
      if (value === '') unsetEnv.push(name);
      else env[name] = value;
    } else if (key.startsWith('rateLimits.')) {
      const [, requests, concurrent] = /^(\d{1,7})\/(\d{1,7})$/.exec(value) ?? [];
      if (requests === undefined) throw refuse(key, 'must be <requests per 10 s>/<concurrent>, 0 for no limit');
      rateLimits.push({ operation: key.slice('rateLimits.'.length), requests: Number(requests), concurrent: Number(concurrent) });
    } else {
      const name = UPDATABLE_PLAIN_NAMES.find((each) => each === key);
      if (name === undefined) throw unknownSetting(key);
      changes[name] = readValue(name, value);
    }
  }
  if (Object.keys(env).length > 0) changes['env'] = env;
  if (unsetEnv.length > 0) changes['unsetEnv'] = unsetEnv;
  if (rateLimits.length > 0) changes['rateLimits'] = rateLimits;
  return changes;
}

/** A 0 or an empty text that the rule rejects stands for the default. */
function readValue(name: UpdatablePlainName, text: string): unknown {
  const value = valueOf(settingOf(name).rule.type, text);
  const violation = isAbsent(name, value) ? null : settingViolation(name, value);
  if (violation !== null) throw refuse(`${name}${violation.path}`, violation.rule);
  return value;
}

function valueOf(type: SettingRule['type'], text: string): unknown {
  switch (type) {
    case 'integer':
      return /^\d{1,15}$/.test(text) ? Number(text) : text;
    case 'flag':
      return text === 'true' || text === 'false' ? text === 'true' : text;
    default:
      return text;
  }
}

function unknownSetting(key: string): ToolError {
  const meant = closest(key, UPDATABLE_PLAIN_NAMES);
  const suggestion = meant === null ? '' : ` (did you mean ${meant}?)`;
  return new ToolError('INVALID_ARGUMENT', `unknown setting ${JSON.stringify(key)}${suggestion}`, `Settings: ${KNOWN.join(', ')}.`, {
    field: key,
  });
}

function refuse(key: string, rule: string): CapstanError {
  return new CapstanError('INVALID_ARGUMENT', `${key}: ${rule}`, { field: key });
}
