/** The settings of an endpoint, checked where they are declared. */
import { DeclarationError } from './errors.ts';
import type { GpuGroup, ScalerType } from './gpus.ts';

type GpuName = GpuGroup | (string & {});

export interface EndpointSettings {
  /** 1 to 64 letters, digits, dots, dashes or underscores. One name is one endpoint. */
  readonly name: string;
  /** A GPU type or group, or several in order of preference. Not with `cpu`. */
  readonly gpu?: GpuName | readonly GpuName[];
  /** `cpu<gen>-<vCPU>-<RAM GB>`. Without `gpu` and `cpu`: the smallest CPU. */
  readonly cpu?: string;
  /** Maximum, or minimum and maximum. Default: 0 and 1. */
  readonly workers?: number | readonly [min: number, max: number];
  /** Seconds a worker stays while idle, 1 to 3600. Default: 60. */
  readonly idleTimeout?: number;
  /** Packages installed into the artifact at build time. */
  readonly dependencies?: readonly string[];
  /** System packages; they need a container image built for them. */
  readonly systemDependencies?: readonly string[];
  /** Environment of the workers; secret. */
  readonly env?: Readonly<Record<string, string>>;
  readonly volume?: string;
  /** Container image. */
  readonly image?: string;
  /** The image serves HTTP requests by itself, and no jobs. (Routes say so of functions.) */
  readonly loadBalanced?: boolean;
  /** GPUs for each worker. Default: 1. */
  readonly gpuCount?: number;
  /** Longest run of a job, ms; 0, the default, for the service's. */
  readonly executionTimeoutMs?: number;
  readonly scalerType?: ScalerType;
  /** Default: 4. */
  readonly scalerValue?: number;
  /** Jobs or requests that a worker serves at once. Default: 1. */
  readonly maxConcurrency?: number;
}

/** The settings with the defaults filled in. */
export interface CheckedSettings {
  readonly name: string;
  /** Empty for a CPU endpoint. */
  readonly gpu: readonly string[];
  /** 0 for a CPU endpoint. */
  readonly gpuCount: number;
  readonly cpu: string | undefined;
  readonly workersMin: number;
  readonly workersMax: number;
  readonly idleTimeout: number;
  readonly dependencies: readonly string[];
  readonly systemDependencies: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly volume: string | undefined;
  readonly image: string | undefined;
  readonly loadBalanced: boolean;
  readonly executionTimeoutMs: number;
  readonly scalerType: ScalerType | undefined;
  readonly scalerValue: number;
  readonly maxConcurrency: number;
}

const known = new Set([
  'name',
  'gpu',
  'cpu',
  'workers',
  'idleTimeout',
  'dependencies',
  'systemDependencies',
  'env',
  'volume',
  'image',
  'loadBalanced',
  'gpuCount',
  'executionTimeoutMs',
  'scalerType',
  'scalerValue',
  'maxConcurrency',
  'schema',
]);

/** @throws DeclarationError naming the setting and the rule. */
export function checkSettings(settings: EndpointSettings): CheckedSettings {
  const { name } = settings;
  if (typeof name !== 'string' || !/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) {
    const rule = 'name must be 1 to 64 letters, digits, dots, dashes or underscores, and start with a letter or digit';
    throw new DeclarationError(name === undefined ? rule : `${rule}, not ${JSON.stringify(name)}`);
  }
  const rules = new Rules(name);
  for (const key of Object.keys(settings)) if (!known.has(key)) throw rules.broken(key, 'is no setting of an endpoint');
  const gpu = rules.gpus(settings.gpu);
  const cpu = rules.text('cpu', settings.cpu);
  if (cpu !== undefined && !/^cpu[a-z0-9]+-[1-9]\d*-[1-9]\d*$/i.test(cpu))
    throw rules.broken('cpu', 'must have the form cpu<gen>-<vCPU>-<RAM GB>, for example cpu3c-4-8', cpu);
  if (cpu !== undefined && !fitsHost(cpu)) throw rules.broken('cpu', CPU_LIMIT_RULE, cpu);
  if (gpu.length > 0 && cpu !== undefined) throw rules.broken('gpu', 'and cpu are alternatives: give one of them');
  const gpuCount = rules.integer('gpuCount', settings.gpuCount ?? 1, 1, 64);
  if (gpuCount !== 1 && gpu.length === 0) throw rules.broken('gpuCount', 'needs gpu');
  const [workersMin, workersMax] = rules.workers(settings.workers ?? [0, 1]);
  return {
    name,
    gpu,
    gpuCount: gpu.length === 0 ? 0 : gpuCount,
    cpu,
    workersMin,
    workersMax,
    idleTimeout: rules.integer('idleTimeout', settings.idleTimeout ?? 60, 1, 3600, ' s'),
    dependencies: rules.texts('dependencies', settings.dependencies),
    systemDependencies: rules.texts('systemDependencies', settings.systemDependencies),
    env: rules.env(settings.env),
    volume: rules.text('volume', settings.volume),
    image: rules.text('image', settings.image),
    loadBalanced: rules.flag('loadBalanced', settings.loadBalanced),
    executionTimeoutMs: rules.executionTimeout(settings.executionTimeoutMs ?? 0),
    scalerType: rules.scaler(settings.scalerType),
    scalerValue: rules.integer('scalerValue', settings.scalerValue ?? 4, 1, 10_000),
    maxConcurrency: rules.integer('maxConcurrency', settings.maxConcurrency ?? 1, 1, 1000),
  };
}

/** The entry under `resources` of the manifest, without its functions (docs/manifest.md). */
export function resourceOf(settings: CheckedSettings): Record<string, unknown> {
  const { gpu, gpuCount, cpu, image, scalerType, volume, env, dependencies, systemDependencies } = settings;
  return {
    workersMin: settings.workersMin,
    workersMax: settings.workersMax,
    idleTimeout: settings.idleTimeout,
    maxConcurrency: settings.maxConcurrency,
    executionTimeoutMs: settings.executionTimeoutMs,
    scalerValue: settings.scalerValue,
    ...(gpu.length === 0 ? {} : { gpuIds: gpu.join(','), gpuCount }),
    ...(cpu === undefined ? {} : { cpu }),
    ...(image === undefined ? {} : { imageName: image }),
    ...(settings.loadBalanced ? { is_load_balanced: true } : {}),
    ...(scalerType === undefined ? {} : { scalerType }),
    ...(volume === undefined ? {} : { volume }),
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(dependencies.length === 0 ? {} : { dependencies }),
    ...(systemDependencies.length === 0 ? {} : { systemDependencies }),
  };
}

/** The rules of single settings: what comes may be untyped JavaScript. Every refusal names the endpoint. */
class Rules {
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  broken(setting: string, rule: string, value?: unknown): DeclarationError {
    const shown = value === undefined ? '' : `, not ${JSON.stringify(value) ?? typeof value}`;
    return new DeclarationError(`endpoint ${this.#name}: ${setting} ${rule}${shown}`);
  }

  integer(setting: string, value: unknown, min: number, max: number, unit = ''): number {
    if (!isInteger(value, min, max)) throw this.broken(setting, `must be an integer between ${min} and ${max}${unit}`, value);
    return value;
  }

  executionTimeout(value: unknown): number {
    if (value === 0 || isInteger(value, 5000, 604_800_000)) return value;
    throw this.broken('executionTimeoutMs', "must be 0 (the service's default) or between 5000 and 604800000 ms", value);
  }

  flag(setting: string, value: unknown = false): boolean {
    if (typeof value !== 'boolean') throw this.broken(setting, 'must be true or false', value);
    return value;
  }

  text(setting: string, value: unknown): string | undefined {
    if (value === undefined) return undefined;
    if (typeof value !== 'string' || value.trim() === '') throw this.broken(setting, 'must be a string that is not empty', value);
    return value;
  }

  texts(setting: string, value: unknown): readonly string[] {
    if (value === undefined) return [];
    if (!Array.isArray(value)) throw this.broken(setting, 'must be an array of strings', value);
    return value.map((each: unknown) => {
      if (typeof each !== 'string' || each.trim() === '')
        throw this.broken(setting, 'must be an array of strings that are not empty', value);
      return each;
    });
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
    const pair: unknown = typeof value === 'number' ? [0, value] : value;
    const [min, max] = Array.isArray(pair) && pair.length === 2 ? (pair as readonly unknown[]) : [];
    if (!isInteger(min, 0, 1000) || !isInteger(max, 0, 1000))
      throw this.broken('workers', 'must be a maximum or [minimum, maximum], integers from 0 to 1000', value);
    if (max < min) throw this.broken('workers', 'must have a maximum of at least the minimum', value);
    return [min, max];
  }

  env(value: unknown): Readonly<Record<string, string>> {
    if (value === undefined) return {};
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw this.broken('env', 'must be an object of strings');
    for (const [key, each] of Object.entries(value)) {
      if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(key))
        throw this.broken('env', `has the name ${JSON.stringify(key)}; a name is letters, digits and underscores`);
      // The value may be a secret: only its name is told.
      if (typeof each !== 'string') throw this.broken('env', `must hold a string at ${key}, not ${typeof each}`);
      if (each.includes('\0')) throw this.broken('env', `must not contain the character NUL at ${key}`);
    }
    return { ...(value as Record<string, string>) };
  }

  scaler(value: unknown): ScalerType | undefined {
    if (value === undefined || value === 'QUEUE_DELAY' || value === 'REQUEST_COUNT') return value;
    throw this.broken('scalerType', 'must be QUEUE_DELAY or REQUEST_COUNT', value);
  }
}

function isInteger(value: unknown, min: number, max: number): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max;
}

/** More than any host has. */
const MOST_CPUS = 512;
const MOST_MEMORY_GB = 8_192;
export const CPU_LIMIT_RULE = `must have at most ${MOST_CPUS} vCPU and ${MOST_MEMORY_GB} GB`;

/** Returns whether a well-formed CPU size is one that a host can have. */
export function fitsHost(cpu: string): boolean {
  const [, cpus, memoryGb] = cpu.split('-').map(Number);
  return (cpus ?? 0) <= MOST_CPUS && (memoryGb ?? 0) <= MOST_MEMORY_GB;
}
