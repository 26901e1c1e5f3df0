/**
 * Environment of endpoints from a file: `--env-file`. Workers get what the file sets, as those of `capstan run` get `.env`; a
 * declaration's own `env` takes precedence. Values are secrets: only names are ever printed.
 */
import { readFileSync, realpathSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { parseEnv } from 'node:util';

import { environmentFault } from '../../lib/environment-values.ts';
import { CapstanError } from '../../lib/errors.ts';
import { errnoOf } from '../../lib/to-error.ts';
import { KEY_VARIABLE, readDotEnv } from '../../terminal/config.ts';
import type { LookUp } from '../discovery/settings.ts';
import { decodeText } from '../../terminal/text-file.ts';
import type { Application } from './application.ts';

/** Names in a message. */
const MAX_NAMED = 5;

export interface EnvFile {
  /** As it was given. */
  readonly path: string;
  /** Absolute. */
  readonly file: string;
  readonly values: Readonly<Record<string, string>>;
}

/** @throws CapstanError INVALID_ARGUMENT when it cannot be read. */
export function readEnvFile(path: string, cwd: string): EnvFile {
  const file = resolve(cwd, path);
  let text: string;
  try {
    text = decodeText(readFileSync(file), path);
  } catch (cause) {
    const reason = cause instanceof CapstanError ? cause.message : `cannot read ${path} (${errnoOf(cause) ?? 'unreadable'})`;
    throw new CapstanError('INVALID_ARGUMENT', `--env-file: ${reason}`, { field: '--env-file', cause });
  }
  const set = Object.entries(parseEnv(text)).filter((each): each is [string, string] => each[1] !== undefined);
  const values = Object.fromEntries(set);
  mustBeValid(values, path);
  return { path, file, values };
}

function mustBeValid(env: Readonly<Record<string, string>>, path: string): void {
  const fault = environmentFault(env);
  if (fault !== null)
    throw new CapstanError('INVALID_ARGUMENT', `--env-file: ${path}${fault.path}: ${fault.rule}`, { field: '--env-file' });
}

/** The tool's own settings are no part of an application: a worker must not get the key of whoever deploys it. */
function isOwn(name: string): boolean {
  return name === KEY_VARIABLE || name.startsWith('CAPSTAN_');
}

/** Returns the paths of the file and of what it links to, relative to the folder; those outside begin with `../../cli`. */
export function secretPaths(folder: string, envFile: EnvFile | undefined): string[] {
  if (envFile === undefined) return [];
  const root = realpathSync(folder);
  const given = [relative(resolve(folder), envFile.file), relative(root, envFile.file)];
  try {
    return [...given, relative(root, realpathSync(envFile.file))];
  } catch {
    return given; // a pipe: --env-file <(…)
  }
}

/** Adds the file's variables to every endpoint. @throws CapstanError INVALID_ARGUMENT that names the file and the rule. */
export function withEnvFile(application: Application, { path, values }: EnvFile): Application {
  const own = Object.fromEntries(Object.entries(values).filter(([name]) => !isOwn(name)));
  const endpoints = application.endpoints.map(({ spec, ...rest }) => {
    const env = { ...own, ...spec.env };
    mustBeValid(env, path);
    return { ...rest, spec: { ...spec, env } };
  });
  return { ...application, endpoints };
}

/** Returns the tool's own settings in the file, which no worker gets; undefined without any. */
export function ownSettingsNotice({ path, values }: EnvFile): string | undefined {
  const names = Object.keys(values).filter(isOwn);
  return names.length === 0
    ? undefined
    : `${path}: ${named(names)} ${names.length === 1 ? 'is' : 'are'} the tool's own and not set for endpoints`;
}

/** A look-up that knows which names it was asked for. */
export function recordedLookUp(lookUp: LookUp): { readonly lookUp: LookUp; readonly names: ReadonlySet<string> } {
  const names = new Set<string>();
  return {
    names,
    lookUp: (name) => {
      names.add(name);
      return lookUp(name);
    },
  };
}

/**
 * Says that `.env` stays here, where it sets variables that no declaration names: the application has them under
 * `capstan run` and would lack them once deployed.
 */
export function dotEnvNotice(folder: string, referenced: ReadonlySet<string>): string | undefined {
  const names = Object.keys(readDotEnv(folder)).filter((name) => !isOwn(name) && !referenced.has(name));
  if (names.length === 0) return undefined;
  return `.env is not part of the artifact, and no endpoint gets ${named(names)}; --env-file .env sets ${names.length === 1 ? 'it' : 'them'} for all endpoints`;
}

function named(names: readonly string[]): string {
  const shown = names.slice(0, MAX_NAMED).join(', ');
  return names.length > MAX_NAMED ? `${shown} and ${names.length - MAX_NAMED} more` : shown;
}
