/** Validates the settings of an endpoint where they are declared. */
import { DECLARED_PARAMETERS, WORKERS_RANGE, type CheckedParameters, type DeclaredParameters } from './declared-parameters.ts';
import { DeclarationError } from './errors.ts';
import type { GpuGroup } from './gpus.ts';
import { nearest } from './nearest.ts';
import { ruleViolation } from './setting-rules.ts';

type GpuName = GpuGroup | (string & {});

export interface EndpointSettings extends DeclaredParameters {
  /** 1 to 64 letters, digits, dots, dashes or underscores. Must be unique. */
  readonly name: string;
  /** A GPU type or group, or several in order of preference. Not with `cpu`. */
  readonly gpu?: GpuName | readonly GpuName[];
  /** Maximum, or minimum and maximum. Default: 0 and 1. */
  readonly workers?: number | readonly [min: number, max: number];
  /** Packages installed into the artifact at build time. */
  readonly dependencies?: readonly string[];
  /** System packages; they require a container image that has them. */
  readonly systemDependencies?: readonly string[];
  /** Environment variables of the workers; secret. */
  readonly env?: Readonly<Record<string, string>>;
  readonly volume?: string;
  /** The image runs its own HTTP server, and no jobs. (For functions, routes have this meaning.) */
  readonly loadBalanced?: boolean;
  /**
   * A web application that answers every path itself: Express, Fastify, Hono, an `http` server; or the file that has it
   * or that listens on `process.env.PORT`: `server.ts`, `server.ts:app`.
   */
  readonly app?: string | object;
  /**
   * A program that listens on `$PORT`, with its arguments; `$PORT` and `$CAPSTAN_…` in them are replaced, without a
   * shell. With `loadBalanced: false` a foreign worker, which fetches jobs.
   */
  readonly command?: readonly string[];
  /**
   * A command line that makes files of the project, such as `npm run build`. It runs in a clean copy at build time; what it
   * makes is part of the artifact, whatever `.gitignore` says.
   */
  readonly build?: string;
}

/** The settings with the defaults filled in. */
export interface CheckedSettings extends CheckedParameters {
  readonly name: string;
  /** Empty for a CPU endpoint. */
  readonly gpu: readonly string[];
  /** 0 for a CPU endpoint. */
  readonly gpuCount: number;
  readonly workersMin: number;
  readonly workersMax: number;
  readonly dependencies: readonly string[];
  readonly systemDependencies: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly volume: string | undefined;
  readonly loadBalanced: boolean;
  /** The application, or the file that has it. */
  readonly app: string | object | undefined;
  /** Empty when there is none. */
  readonly command: readonly string[];
  readonly build: string | undefined;
}

/** Requests that a server takes at once unless its declaration says otherwise: it was made for several. */
const SERVER_CONCURRENCY = 100;

const PARAMETERS = Object.keys(DECLARED_PARAMETERS) as readonly (keyof DeclaredParameters)[];

const known = new Set<string>([
  ...PARAMETERS,
  ...['name', 'gpu', 'workers', 'dependencies', 'systemDependencies', 'env', 'volume', 'loadBalanced', 'app', 'command', 'build', 'schema'],
]);

function unknownSetting(endpoint: string, key: string): DeclarationError {
  const near = nearest(key, known);
  return new DeclarationError(
    `endpoint ${endpoint}: unknown setting ${JSON.stringify(key)}${near === undefined ? '' : ` (did you mean ${near}?)`}`,
  );
}

/** @throws DeclarationError naming the setting and the rule. */
export function checkSettings(settings: EndpointSettings): CheckedSettings {
  const { name } = settings;
  if (typeof name !== 'string' || !/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) {
    const rule = 'name must be 1 to 64 letters, digits, dots, dashes or underscores, and start with a letter or digit';
    throw new DeclarationError(name === undefined ? rule : `${rule}, not ${JSON.stringify(name)}`);
  }
  const rules = new Rules(name);
  for (const key of Object.keys(settings)) if (!known.has(key)) throw unknownSetting(name, key);
  const gpu = rules.gpus(settings.gpu);
  const app = rules.app(settings.app);
  const command = rules.command(settings.command);
  if (app !== undefined && command.length > 0) throw rules.broken('app', 'and command are mutually exclusive');
  const isServer = app !== undefined || command.length > 0;
  const parameters = rules.parameters(isServer ? { maxConcurrency: SERVER_CONCURRENCY, ...settings } : settings);
  const loadBalanced = rules.flag('loadBalanced', settings.loadBalanced ?? isServer);
  if (app !== undefined && !loadBalanced) throw rules.broken('loadBalanced', 'must not be false: an app serves requests');
  if (gpu.length > 0 && parameters.cpu !== undefined) throw rules.broken('gpu', 'and cpu are mutually exclusive');
  if (parameters.gpuCount !== 1 && gpu.length === 0) throw rules.broken('gpuCount', 'requires gpu');
  for (const name of ['minCuda', 'minDriver'] as const)
    if (parameters[name] !== '' && gpu.length === 0) throw rules.broken(name, 'requires gpu');
  const [workersMin, workersMax] = rules.workers(settings.workers ?? [0, 1]);
  return {
    ...parameters,
    name,
    gpu,
    gpuCount: gpu.length === 0 ? 0 : parameters.gpuCount,
    workersMin,
    workersMax,
    dependencies: rules.texts('dependencies', settings.dependencies),
    systemDependencies: rules.texts('systemDependencies', settings.systemDependencies),
    env: rules.env(settings.env),
    volume: rules.text('volume', settings.volume),
    loadBalanced,
    app,
    command,
    build: rules.text('build', settings.build),
  };
}

/** The entry under `resources` of the manifest, without its functions (docs/manifest.md). */
export function resourceOf(settings: CheckedSettings): Record<string, unknown> {
  const { workersMin, workersMax, gpu, volume, env, dependencies, systemDependencies, command } = settings;
  const parameters = PARAMETERS.filter(
    (name) => settings[name] !== undefined && settings[name] !== '' && (name !== 'gpuCount' || gpu.length > 0),
  );
  return {
    workersMin,
    workersMax,
    ...Object.fromEntries(parameters.map((name) => [DECLARED_PARAMETERS[name].key, settings[name]])),
    ...(gpu.length === 0 ? {} : { gpuIds: gpu.join(',') }),
    ...(settings.loadBalanced ? { is_load_balanced: true } : {}),
    ...(command.length === 0 ? {} : { command }),
    ...(volume === undefined ? {} : { volume }),
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(dependencies.length === 0 ? {} : { dependencies }),
    ...(systemDependencies.length === 0 ? {} : { systemDependencies }),
  };
}

/** Rules of single settings. The values may be untyped JavaScript. Every error names the endpoint. */
class Rules {
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  broken(setting: string, rule: string, value?: unknown): DeclarationError {
    const shown = value === undefined ? '' : `, not ${JSON.stringify(value) ?? typeof value}`;
    return new DeclarationError(`endpoint ${this.#name}: ${setting} ${rule}${shown}`);
  }

  /** Settings with their own rule, with the defaults filled in. */
  parameters(settings: DeclaredParameters): CheckedParameters {
    const checked = PARAMETERS.map((name) => {
      const given: unknown = settings[name];
      if (given === undefined) return [name, DECLARED_PARAMETERS[name].default] as const;
      const violation = ruleViolation(DECLARED_PARAMETERS[name].rule, given);
      if (violation !== null) throw this.broken(`${name}${violation.path}`, violation.rule);
      return [name, given] as const;
    });
    return Object.fromEntries(checked) as unknown as CheckedParameters;
  }

  flag(setting: string, value: unknown = false): boolean {
    if (typeof value !== 'boolean') throw this.broken(setting, 'must be true or false', value);
    return value;
  }

  text(setting: string, value: unknown): string | undefined {
    if (value === undefined) return undefined;
    if (typeof value !== 'string' || value.trim() === '') throw this.broken(setting, 'must be a non-empty string', value);
    return value;
  }

  texts(setting: string, value: unknown): readonly string[] {
    if (value === undefined) return [];
    if (!Array.isArray(value)) throw this.broken(setting, 'must be an array of strings', value);
    return value.map((each: unknown) => {
      if (typeof each !== 'string' || each.trim() === '') throw this.broken(setting, 'must be an array of non-empty strings', value);
      return each;
    });
  }

  app(value: unknown): string | object | undefined {
    if (value === undefined) return undefined;
    if (typeof value === 'string' && value.trim() !== '') return value;
    if (typeof value === 'function' || (typeof value === 'object' && value !== null)) return value;
    throw this.broken('app', 'must be a web application, or the module that has one', value);
  }

  command(value: unknown): readonly string[] {
    const words = this.texts('command', value);
    if (value !== undefined && words.length === 0) throw this.broken('command', 'must name a program');
    return words;
  }

  gpus(value: unknown): readonly string[] {
    if (value === undefined) return [];
    const several: readonly unknown[] = Array.isArray(value) ? value : [value];
    if (several.length === 0) throw this.broken('gpu', 'must name at least one GPU type or group');
    return several.map((each) => {
      if (typeof each !== 'string' || each.trim() === '' || each.includes(','))
        throw this.broken('gpu', 'must be the name of a GPU type or group, or an array of them', value);
      return each;
    });
  }

  workers(value: unknown): readonly [number, number] {
    const { min: least, max: most } = WORKERS_RANGE;
    const pair: unknown = typeof value === 'number' ? [0, value] : value;
    const [min, max] = Array.isArray(pair) && pair.length === 2 ? (pair as readonly unknown[]) : [];
    if (!isInteger(min, least, most) || !isInteger(max, least, most))
      throw this.broken('workers', `must be a maximum or [minimum, maximum], integers from ${least} to ${most}`, value);
    if (max < min) throw this.broken('workers', 'must have a maximum of at least the minimum', value);
    return [min, max];
  }

  env(value: unknown): Readonly<Record<string, string>> {
    if (value === undefined) return {};
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw this.broken('env', 'must be an object of strings');
    for (const [key, each] of Object.entries(value)) {
      if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(key))
        throw this.broken('env', `has the name ${JSON.stringify(key)}; a name must contain only letters, digits and underscores`);
      // The value may be a secret: only its name is shown.
      if (typeof each !== 'string') throw this.broken('env', `must have a string at ${key}, not ${typeof each}`);
      if (each.includes('\0')) throw this.broken('env', `must not contain the character NUL at ${key}`);
    }
    return { ...(value as Record<string, string>) };
  }
}

function isInteger(value: unknown, min: number, max: number): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max;
}
