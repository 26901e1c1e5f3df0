/** What a deployment may ask for. */
import { createHash } from 'node:crypto';

import { baseImageOf, preinstalledPackages } from '../../lib/base-images.ts';
import { environmentFault } from '../../lib/environment-values.ts';
import { CapstanError } from '../../lib/errors.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { EndpointSpec } from '../../proto/gen/capstan/v1/control.ts';
import type { EndpointInput } from '../core/state/endpoints.ts';
import { defaultLimits, type Limit, type LimitedOperation, type Limits } from '../core/jobs/rate-limits.ts';
import { places } from '../core/control/encryption.ts';
import type { GpuTable } from '../../lib/gpu-table.ts';
import { cpuSize } from '../core/fleet/placement/cpu-size.ts';
import { languageOf } from '../core/fleet/placement/runtime-choice.ts';
import type { Cipher } from '../secrets/cipher.ts';

/** The service's defaults. */
const DEFAULT_SCALER_VALUE = 4;
const DEFAULT_IDLE_TIMEOUT_S = 5;
const limits = {
  workers: 1_000,
  idleTimeoutS: 3_600,
  maxConcurrency: 1_000,
  executionTimeoutMs: [5_000, 604_800_000],
  gpuCount: 64,
  maxAttempts: 1_000,
  scalerValue: 10_000,
  /** Requests of a rate limit, and those that a worker adds to it. */
  requests: 1_000_000,
} as const;

/** Whose deployment it is, and against what it is checked. */
export interface ValidationContext {
  readonly account: string;
  readonly environment: string;
  readonly gpus: GpuTable;
  /** GPU models that nodes have. */
  readonly fleet: ReadonlySet<string>;
}

/** An endpoint that was checked, with its environment as text. Not for logs. */
export interface CheckedEndpoint extends Omit<EndpointInput, 'envSealed'> {
  readonly env: string;
}

/**
 * Encrypts the environment. To be called in the turn of the event loop that hands the command on:
 * what is encrypted and then waits might outlast its key.
 */
export function encryptEnv(
  { env, ...checked }: CheckedEndpoint,
  cipher: Cipher,
  owner: { readonly account: string; readonly environment: string },
): EndpointInput {
  const place = places.env({ ...owner, name: checked.name });
  return { ...checked, envSealed: env === '{}' ? null : cipher.encrypt(env, place).toString('base64') };
}

/** Checks every endpoint of a deployment. INVALID_ARGUMENT names field and rule. */
export function checkEndpoints(specs: readonly EndpointSpec[], around: ValidationContext): CheckedEndpoint[] {
  if (specs.length === 0) throw invalid('endpoints', 'must hold at least one endpoint');
  checkName('environment', around.environment);
  const names = new Set<string>();
  const functions = new Map<string, string>();
  for (const spec of specs) {
    checkName('endpoints.name', spec.name);
    if (names.has(spec.name)) throw invalid(spec.name, 'is listed twice; the name of an endpoint must be unique');
    names.add(spec.name);
    for (const fn of spec.functions) {
      const other = functions.get(fn.name);
      if (other !== undefined)
        throw invalid(`${spec.name}.functions`, `function ${fn.name} is also defined by ${other}; names must be unique in an application`);
      functions.set(fn.name, spec.name);
    }
  }
  return specs.map((spec) => checkEndpoint(spec, around));
}

/** Checks one endpoint by itself; of its environment what is new. */
export function checkEndpoint(spec: EndpointSpec, around: ValidationContext, newEnv = spec.env): CheckedEndpoint {
  const field = (part: string): string => `${spec.name}.${part}`;
  const kind = spec.kind === EndpointKind.LOAD_BALANCED ? 'LOAD_BALANCED' : 'QUEUE';
  checkProgram(spec, kind);
  range(field('workersMax'), spec.workersMax, 0, limits.workers);
  if (spec.workersMin > spec.workersMax) throw invalid(field('workersMin'), `must be at most workersMax (${spec.workersMax})`);
  const idleTimeoutS = spec.idleTimeoutS ?? DEFAULT_IDLE_TIMEOUT_S;
  range(field('idleTimeout'), idleTimeoutS, 1, limits.idleTimeoutS);
  checkSelection(spec, around);
  if (spec.executionTimeoutMs !== 0) range(field('executionTimeoutMs'), spec.executionTimeoutMs, ...limits.executionTimeoutMs);
  range(field('maxConcurrency'), spec.maxConcurrency, 0, limits.maxConcurrency);
  range(field('maxAttempts'), spec.maxAttempts, 0, limits.maxAttempts);
  range(field('scalerValue'), spec.scalerValue, 0, limits.scalerValue);
  range(field('requestsPerWorker'), spec.requestsPerWorker ?? 0, 0, limits.requests);
  // What no process could be started with must not become a release: its workers would only ever fail.
  const fault = environmentFault(newEnv);
  if (fault !== null) throw invalid(field(`env${fault.path}`), fault.rule);
  if (spec.isPublic && kind === 'QUEUE') throw invalid(field('public'), 'only a load-balanced endpoint may be public');
  checkRoutes(spec, kind);
  const { scalerType } = spec;
  if (scalerType !== '' && scalerType !== 'QUEUE_DELAY' && scalerType !== 'REQUEST_COUNT')
    throw invalid(field('scalerType'), 'must be QUEUE_DELAY or REQUEST_COUNT');
  const env = JSON.stringify(Object.fromEntries(Object.entries(spec.env).sort(([a], [b]) => (a < b ? -1 : 1))));
  return {
    name: spec.name,
    kind,
    imageName: spec.imageName,
    workersMin: spec.workersMin,
    workersMax: spec.workersMax,
    idleTimeoutS,
    gpuIds: spec.gpuIds,
    gpuCount: spec.gpuIds === '' ? 0 : Math.max(1, spec.gpuCount),
    cpu: spec.cpu,
    functions: spec.functions,
    command: spec.command,
    packages: [...new Set(spec.packages)].sort(),
    python: spec.python,
    runtime: spec.runtime,
    maxConcurrency: Math.max(1, spec.maxConcurrency),
    executionTimeoutMs: spec.executionTimeoutMs,
    scalerType: scalerType === '' ? (kind === 'QUEUE' ? 'QUEUE_DELAY' : 'REQUEST_COUNT') : scalerType,
    scalerValue: spec.scalerValue === 0 ? DEFAULT_SCALER_VALUE : spec.scalerValue,
    maxAttempts: spec.maxAttempts,
    routes: spec.routes,
    limits: limitsOf(spec),
    requestsPerWorker: spec.requestsPerWorker ?? null,
    isPublic: spec.isPublic,
    env,
    envDigest: createHash('sha256').update(env).digest('hex'),
  };
}

/** A route is `<METHOD> <path>`, and names a function of its endpoint. */
function checkRoutes({ name, routes, functions }: EndpointSpec, kind: 'QUEUE' | 'LOAD_BALANCED'): void {
  const entries = Object.entries(routes);
  if (kind === 'QUEUE') {
    if (entries.length > 0) throw invalid(`${name}.routes`, 'only a load-balanced endpoint may have routes');
    return;
  }
  if (functions.length === 0) {
    if (entries.length > 0) throw invalid(`${name}.routes`, 'require functions; a foreign worker serves every path itself');
    return;
  }
  if (entries.length === 0 && functions.length > 0) throw invalid(`${name}.routes`, 'a load-balanced endpoint needs at least one route');
  for (const [route, fn] of entries) {
    if (!/^(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) \/\S*$/.test(route))
      throw invalid(`${name}.routes`, `${JSON.stringify(route)} must have the form <METHOD> <path>`);
    if (!functions.some((each) => each.name === fn)) throw invalid(`${name}.routes`, `${route}: the endpoint has no function ${fn}`);
  }
}

/** What runs: functions of the build, or a worker that speaks the worker protocol itself. */
function checkProgram(spec: EndpointSpec, kind: 'QUEUE' | 'LOAD_BALANCED'): void {
  const field = (part: string): string => `${spec.name}.${part}`;
  const { functions, command, imageName, packages } = spec;
  const ownImage = imageName !== '' && baseImageOf(imageName) === null;
  if (/\s/.test(imageName)) throw invalid(field('imageName'), 'must be an image reference without spaces');
  if (command.some((part) => part === '' || part.includes('\0'))) throw invalid(field('command'), 'must not contain empty strings');
  if (functions.length === 0) {
    if (!ownImage && command.length === 0)
      throw invalid(field('functions'), 'must name at least one function, unless there is a command or an image with its own worker');
  } else if (command.length > 0) throw invalid(field('command'), 'is for foreign workers, which have no functions');
  if (kind === 'QUEUE' && functions.length > 1)
    throw invalid(field('functions'), `a queue endpoint must have exactly one function, not ${functions.length}`);
  for (const fn of functions)
    if (fn.name === '' || fn.module === '') throw invalid(field('functions'), 'must each have a name and a module');
  checkRuntime(spec, ownImage);
  if (spec.python !== '' && !/^\d+\.\d+$/.test(spec.python))
    throw invalid(field('python'), 'must be a version of two numbers, for example 3.12');
  for (const name of packages) {
    if (!preinstalledPackages.some((known) => known === name))
      throw invalid(field('packages'), `${JSON.stringify(name)} is not one of ${preinstalledPackages.join(', ')}`);
  }
}

/** The runtime that an endpoint forces must be able to run it. */
function checkRuntime(spec: EndpointSpec, ownImage: boolean): void {
  const { name, runtime, functions, imageName } = spec;
  const python = functions.filter(({ module }) => module.endsWith('.py'));
  if (python.length > 0 && python.length < functions.length)
    throw invalid(`${name}.functions`, 'mix Python with another language; a worker runs one language');
  const language = languageOf(spec);
  const base = imageName === '' ? null : baseImageOf(imageName);
  if (base !== null && language !== null && base.language !== language)
    throw invalid(`${name}.imageName`, `${imageName} is for ${base.language}, and the functions are not`);
  const field = `${name}.runtime`;
  if (runtime === '') return;
  if (runtime !== 'thread' && runtime !== 'process' && runtime !== 'container')
    throw invalid(field, 'must be thread, process or container');
  if (ownImage && runtime !== 'container') throw invalid(field, `must be container for the image ${imageName}`);
  if (runtime === 'thread' && python.length > 0) throw invalid(field, 'must be process or container for functions in Python');
  if (language !== null) return;
  if (runtime === 'thread') throw invalid(field, 'must be process or container for a command');
  if (runtime === 'container' && imageName === '') throw invalid(`${name}.imageName`, 'is required: the image in which the command runs');
}

function checkSelection(spec: EndpointSpec, { gpus, fleet }: ValidationContext): void {
  const field = (part: string): string => `${spec.name}.${part}`;
  const { gpuIds, gpuCount, cpu } = spec;
  if (gpuIds !== '' && cpu !== '') throw invalid(field('cpu'), 'gpu and cpu are mutually exclusive');
  if (cpu !== '' && cpuSize(cpu) === null)
    throw invalid(field('cpu'), `${JSON.stringify(cpu)} must have the form cpu<gen>-<vCPU>-<RAM GB>, for example cpu3c-4-8`);
  if (gpuIds === '') return;
  const fault = gpus.fault(gpuIds, fleet);
  if (fault !== null) throw invalid(field('gpuIds'), fault);
  range(field('gpuCount'), gpuCount, 0, limits.gpuCount);
}

function limitsOf(spec: EndpointSpec): Partial<Limits> {
  const own: Partial<Record<LimitedOperation, Limit>> = {};
  for (const [operation, { requests, concurrent }] of Object.entries(spec.rateLimits)) {
    if (!Object.hasOwn(defaultLimits, operation)) {
      throw invalid(
        `${spec.name}.rateLimits.${operation}`,
        `is not an operation; the operations are ${Object.keys(defaultLimits).join(', ')}`,
      );
    }
    range(`${spec.name}.rateLimits.${operation}.requests`, requests, 0, limits.requests);
    range(`${spec.name}.rateLimits.${operation}.concurrent`, concurrent, 0, limits.requests);
    own[operation as LimitedOperation] = { requests, concurrent };
  }
  return own;
}

/** Names of endpoints, environments and accounts. */
export function checkName(field: string, value: string): void {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(value))
    throw invalid(
      field,
      `${JSON.stringify(value)} must be 1 to 64 letters, digits, dots, dashes or underscores, and start with a letter or digit`,
    );
}

function range(field: string, value: number, min: number, max: number): void {
  if (value < min || value > max) throw invalid(field, `must be between ${min} and ${max}, not ${value}`);
}

function invalid(field: string, rule: string): CapstanError {
  return new CapstanError('INVALID_ARGUMENT', `${field}: ${rule}`, { field });
}
