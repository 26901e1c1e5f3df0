/**
 * Converts a declaration's literal arguments to checked settings, by the rules of the SDK; errors name the place in the
 * source.
 */
import type { CapstanError } from '../../lib/errors.ts';
import { isSecretName, SECRET_NAME_RULE } from '../../lib/secret-references.ts';
import { DeclarationError } from '../../sdk/typescript/errors.ts';
import { checkSettings, type CheckedSettings, type EndpointSettings } from '../../sdk/typescript/settings.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import type { Language } from './declared.ts';

/** One argument of the source. */
export interface Argument {
  readonly line: number;
  /** Its value; absent when it is not literal. */
  readonly value?: unknown;
  /** Source text that is not literal. */
  readonly problem?: string | undefined;
}

/** A variable of the tool's own environment that a value of `env` references. */
export interface VariableReference {
  readonly $variable: string;
  /** Null means that the variable must be set. */
  readonly default: string | null;
}

export interface Place {
  readonly file: string;
  readonly line: number;
  readonly language: Language;
}

/** As the SDKs refer to a secret in a value of `env`. */
const SECRET = /^\{\{ CAPSTAN_SECRET_([^{}]*) \}\}$/;

/** Returns a value of `env` that stands for a secret. Its name is checked with the settings. */
export function secretReference(name: string): string {
  return `{{ CAPSTAN_SECRET_${name} }}`;
}

/** Returns a variable of the shell or of `.env`. */
export type LookUp = (name: string) => string | undefined;

/** Parameters of Flash's declarations that the SDK for Python accepts without an effect. */
export const FORMER_PARAMETERS: ReadonlySet<string> = new Set(['accelerate_downloads', 'datacenter', 'flashboot', 'min_cuda_version']);

/** `within`: the statement around a declaration. */
export function nestedWarning(file: string, line: number, within: string): string {
  return `${file}:${line}: an endpoint is declared within ${within} and is left out; declarations must be at the top level of their file`;
}

/** `idle_timeout` → `idleTimeout`. */
function inCamelCase(name: string): string {
  return name.replaceAll(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
}

/** @throws CapstanError INVALID_MANIFEST with file, line and rule. */
export function settingsOf(given: Readonly<Record<string, Argument>>, place: Place, lookUp: LookUp): CheckedSettings {
  const settings: Record<string, unknown> = {};
  for (const [key, argument] of Object.entries(given)) {
    if (place.language === 'python' && FORMER_PARAMETERS.has(key)) continue;
    if (argument.problem !== undefined) throw notLiteral(key, argument.problem, { ...place, line: argument.line });
    // None in Python means absent.
    if (argument.value === undefined || argument.value === null) continue;
    const name = place.language === 'python' ? inCamelCase(key) : key;
    settings[name] = key === 'env' ? withVariables(argument, place, lookUp) : withoutVariables(argument.value, key, argument.line, place);
  }
  try {
    return checkSettings(settings as unknown as EndpointSettings);
  } catch (error) {
    if (!(error instanceof DeclarationError)) throw error;
    const names = new Map(Object.keys(given).map((key) => [place.language === 'python' ? inCamelCase(key) : key, key]));
    // The TypeScript SDK checks both languages: the message uses the setting's name in the source.
    const message = error.message.replace(
      /^(endpoint [^:]*: )(\w+)/,
      (_match, start: string, name: string) => start + (names.get(name) ?? name),
    );
    const [, setting = ''] = /^endpoint [^:]*: (\w+)/.exec(message) ?? [];
    throw broken({ ...place, line: given[setting]?.line ?? place.line }, message);
  }
}

export function broken({ file, line }: Place, message: string, hint = 'Correct the declaration.'): CapstanError {
  return new ToolError('INVALID_MANIFEST', `${file}:${line}: ${message}`, hint);
}

export function notLiteral(what: string, text: string, place: Place): CapstanError {
  return broken(
    place,
    `${what} must be a literal; \`${text}\` is not`,
    'The tool reads declarations without running them. Literals are strings, numbers, lists, objects, GpuGroup.ADA_24, or a constant of the same file.',
  );
}

function withVariables({ value, line }: Argument, place: Place, lookUp: LookUp): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]: [string, unknown]) => {
      const [, secret] = (typeof each === 'string' && SECRET.exec(each)) || [];
      if (secret !== undefined && !isSecretName(secret))
        throw broken({ ...place, line }, `env ${key} refers to the secret ${JSON.stringify(secret)}, which ${SECRET_NAME_RULE}`);
      if (!isVariable(each)) return [key, each];
      const found = lookUp(each.$variable) ?? each.default;
      if (found === null || found === undefined)
        throw broken(
          { ...place, line },
          `env ${key} refers to the variable ${each.$variable}, which is not set`,
          'Set it in the shell or in .env.',
        );
      return [key, found];
    }),
  );
}

function withoutVariables(value: unknown, key: string, line: number, place: Place): unknown {
  if (isVariable(value)) throw notLiteral(key, value.$variable, { ...place, line });
  if (Array.isArray(value)) for (const each of value as unknown[]) withoutVariables(each, key, line, place);
  return value;
}

function isVariable(value: unknown): value is VariableReference {
  return typeof value === 'object' && value !== null && '$variable' in value;
}
