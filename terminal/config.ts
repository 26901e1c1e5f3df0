/**
 * The settings of the tool. A flag overrides the shell's environment, which overrides `.env` in the working folder,
 * which overrides the default. The parts have their own schemas; `capstan up` passes settings to them through the
 * environment.
 */
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';

import { z } from 'zod';

import { CELL_NAME, CELL_NAME_RULE, DEFAULT_CELL } from '../lib/cells.ts';
import { CapstanError } from '../lib/errors.ts';
import { errnoOf } from '../lib/to-error.ts';
import { tlsSettings } from '../lib/tls-settings.ts';
import { POSTGRES_PASSWORD_RULE, POSTGRES_SCHEME_RULE } from '../lib/postgres-rules.ts';
import type { OptionSpec, OptionValues } from './options.ts';
import { decodeText } from './text-file.ts';

/** Environment variables and working folder of the process. */
export interface Environment {
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Working folder, absolute. */
  readonly cwd: string;
}

export function readEnvironment(): Environment {
  return { variables: process.env, cwd: process.cwd() };
}

/** Folder that holds the sources: the checkout, or the installed package. */
export const installRoot = resolve(dirname(fileURLToPath(import.meta.url)), '..');

export const KEY_VARIABLE = 'SERVICE_API_KEY';

export const DEFAULT_HTTP_PORT = 8080;
export const DEFAULT_GRPC_PORT = 7070;

function port(description: string, env: string, flag: string): z.ZodOptional<z.ZodType<number>> {
  const rule = 'must be a port number between 0 and 65535';
  const schema: z.ZodType<number> = z
    .string()
    .regex(/^\d{1,5}$/, rule)
    .transform(Number)
    .refine((number) => number <= 65_535, rule);
  return schema.optional().meta({ description, env, flag });
}

/** The settings, each with its variable, its flag and a description. */
export const settingsSchema = z.object({
  httpPort: port(
    `Port of the HTTP API on 127.0.0.1 (default: ${DEFAULT_HTTP_PORT}); 0 picks a free one.`,
    'CAPSTAN_HTTP_PORT',
    '--http-port <port>',
  ),
  grpcPort: port(
    `Port of the scheduler on 127.0.0.1 (default: ${DEFAULT_GRPC_PORT}); 0 picks a free one.`,
    'CAPSTAN_GRPC_PORT',
    '--grpc-port <port>',
  ),
  dataDir: z.string().min(1).optional().meta({
    description: 'Data folder (default: .capstan in a checkout, else ~/.capstan).',
    env: 'CAPSTAN_DATA_DIR',
    flag: '--data-dir <folder>',
  }),
  scheduler: z
    .string()
    .regex(/^(unix:.+|.+:\d{1,5})$/, 'must be host:port or unix:<path>')
    .optional()
    .meta({
      description: 'Address of the scheduler, or of several, separated by commas (default: the running stack).',
      env: 'CAPSTAN_SCHEDULER',
      flag: '--scheduler <host:port>',
    }),
  cell: z.string().regex(CELL_NAME, CELL_NAME_RULE).default(DEFAULT_CELL).meta({
    description: 'Cell whose scheduler receives the call.',
    env: 'CAPSTAN_CELL',
  }),
  store: z
    .string()
    .min(1)
    .refine((text) => /^postgres(?:ql)?:\/\//.test(text), POSTGRES_SCHEME_RULE)
    .refine((text) => (URL.parse(text)?.password ?? '') === '', POSTGRES_PASSWORD_RULE)
    .optional()
    .meta({
      description: 'Where the queue is stored: postgres://user@host:port/database (default: SQLite in the data folder).',
      env: 'CAPSTAN_STORE',
      flag: '--store <url>',
    }),
  schedulers: z
    .string()
    .regex(/^[1-9]$/, 'must be a number between 1 and 9')
    .transform(Number)
    .optional()
    .meta({
      description: 'Number of schedulers on this host (default: 1); more than one requires --store and uses the ports after --grpc-port.',
      env: 'CAPSTAN_SCHEDULERS',
      flag: '--schedulers <number>',
    }),
  ...tlsSettings,
  url: z
    .url({ protocol: /^https?$/, error: 'must be an http or https URL' })
    .optional()
    .meta({
      description: 'Base URL of the gateway (default: the running stack, else the one stored by capstan login).',
      env: 'CAPSTAN_URL',
      flag: '--url <base URL>',
    }),
  apiKey: z.string().min(1).optional().meta({
    description: 'API key, a secret (default: secrets/api-key in the data folder, or the one stored by capstan login).',
    env: 'SERVICE_API_KEY',
  }),
  containerSocket: z.string().min(1).default('auto').meta({
    description:
      'Socket of the container engine for previews: a path; `auto` for the default paths of Docker and Podman; `none` for no engine.',
    env: 'CAPSTAN_CONTAINER_SOCKET',
  }),
});

type ParsedSettings = z.output<typeof settingsSchema>;

export type Settings = Readonly<Omit<ParsedSettings, 'dataDir'>> & {
  /** Absolute. */
  readonly dataDir: string;
  /** Absent when no setting is from a file. */
  readonly fromFile?: FileSettings;
};

/** The settings whose values are from `.env` of the working folder. */
export interface FileSettings {
  readonly path: string;
  readonly names: readonly SettingName[];
}

export type SettingName = keyof ParsedSettings;

/** Settings of commands that call the gateway. */
export const GATEWAY_SETTINGS = ['url', 'httpPort', 'dataDir', 'apiKey'] as const satisfies readonly SettingName[];
/** Settings of commands for the scheduler's own host. */
export const SCHEDULER_SETTINGS = [
  'scheduler',
  'cell',
  'grpcPort',
  'dataDir',
  'apiKey',
  'tlsCa',
  'tlsCert',
  'tlsKey',
  'grpcPlain',
] as const satisfies readonly SettingName[];

/** Returns the options of the named settings. */
export function settingOptions(...names: readonly SettingName[]): OptionSpec[] {
  return names.flatMap((name) => {
    const { flag, description, env } = settingsSchema.shape[name].meta() ?? {};
    return typeof flag === 'string' ? [{ flags: flag, description: phrase(description), env: String(env), section: 'Connection:' }] : [];
  });
}

/** The description as a phrase, like those of other options; notes follow it. */
function phrase(description: unknown): string {
  return String(description)
    .replace(/\.$/, '')
    .replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());
}

/** Returns the environment variables of the named settings that have no option. */
export function settingVariables(...names: readonly SettingName[]): { readonly name: string; readonly description: string }[] {
  return names.flatMap((name) => {
    const { flag, description, env } = settingsSchema.shape[name].meta() ?? {};
    return typeof flag === 'string' ? [] : [{ name: String(env), description: phrase(description) }];
  });
}

/**
 * Reads the settings. The API key may also be in `.env` of the command's `project`. Nothing else is read there, so that
 * a project cannot decide where its key is sent.
 * @throws CapstanError INVALID_ARGUMENT for a flag and CONFIG for a variable, naming it and the rule.
 */
export function readSettings(options: OptionValues, environment: Environment, project?: string): Settings {
  const ofProject = project === undefined ? {} : readDotEnv(project);
  const fromFile: Readonly<Record<string, string | undefined>> = {
    ...(nonEmpty(ofProject[KEY_VARIABLE]) === undefined ? {} : { [KEY_VARIABLE]: ofProject[KEY_VARIABLE] }),
    ...withoutEmpty(readDotEnv(environment.cwd)),
  };
  const given: Record<string, unknown> = {};
  const sources = new Map<string, { name: string; flag: boolean }>();
  const ofFile: SettingName[] = [];
  for (const [key, schema] of Object.entries(settingsSchema.shape)) {
    const { env, flag } = schema.meta() ?? {};
    const name = String(env);
    const option = flag === undefined ? undefined : options[key];
    const named = option ?? nonEmpty(environment.variables[name]);
    const value = named ?? nonEmpty(fromFile[name]);
    if (named === undefined && value !== undefined) ofFile.push(key as SettingName);
    if (value !== undefined) given[key] = value;
    sources.set(key, option === undefined ? { name, flag: false } : { name: String(flag).split(' ', 1)[0] ?? '', flag: true });
  }
  const result = settingsSchema.safeParse(given);
  if (!result.success) {
    const issue = result.error.issues[0];
    const source = sources.get(String(issue?.path[0])) ?? { name: 'settings', flag: false };
    throw new CapstanError(source.flag ? 'INVALID_ARGUMENT' : 'CONFIG', `${source.name}: ${issue?.message ?? 'is not valid'}`, {
      field: source.name,
    });
  }
  const { dataDir, ...rest } = result.data;
  return Object.freeze({
    ...rest,
    dataDir: dataDir === undefined ? defaultDataDir() : resolve(environment.cwd, dataDir),
    ...(ofFile.length === 0 ? {} : { fromFile: { path: join(environment.cwd, '.env'), names: ofFile } }),
  });
}

/** Returns `.capstan` of a checkout, and `~/.capstan` for an installed tool. */
function defaultDataDir(): string {
  return installRoot.split(/[\\/]/).includes('node_modules') ? join(homedir(), '.capstan') : join(installRoot, '.capstan');
}

/** Reads `.env` of a folder; an absent file is empty. @throws CapstanError CONFIG */
export function readDotEnv(folder: string): Readonly<Record<string, string | undefined>> {
  const path = join(folder, '.env');
  try {
    return parseEnv(decodeText(readFileSync(path), path));
  } catch (cause) {
    if (cause instanceof CapstanError) throw new CapstanError('CONFIG', cause.message, { cause });
    const code = errnoOf(cause) ?? 'unreadable';
    if (code === 'ENOENT' || code === 'EISDIR' || code === 'ENOTDIR') return {};
    throw new CapstanError('CONFIG', `cannot read ${path} (${code})`, { cause });
  }
}

/** Where a command finds the API key. */
export type KeySource = { readonly kind: 'shell' } | { readonly kind: 'file'; readonly path: string };

/** Returns where SERVICE_API_KEY comes from, in the order of `readSettings`; undefined when it is not set. */
export function keySource({ variables, cwd }: Environment, project?: string): KeySource | undefined {
  if (nonEmpty(variables[KEY_VARIABLE]) !== undefined) return { kind: 'shell' };
  const folder = [cwd, ...(project === undefined ? [] : [project])].find((each) => nonEmpty(readDotEnv(each)[KEY_VARIABLE]) !== undefined);
  return folder === undefined ? undefined : { kind: 'file', path: join(folder, '.env') };
}

function withoutEmpty(variables: Readonly<Record<string, string | undefined>>): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(variables).filter(([, value]) => nonEmpty(value) !== undefined));
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === undefined || text === '' ? undefined : text;
}
