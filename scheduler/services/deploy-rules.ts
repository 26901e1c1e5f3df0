/** What a deployment may ask for (SPEC.md, Endpoint configuration; WIRE.md sections 5 and 6). */
import { createHash } from 'node:crypto';

import { CapstanError } from '../../proto/errors.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { EndpointSpec } from '../../proto/gen/capstan/v1/control.ts';
import type { EndpointInput } from '../core/events.ts';
import { defaultLimits, type Limit, type LimitedOperation, type Limits } from '../core/rate-limits.ts';
import type { Cipher } from '../secrets/cipher.ts';
import { envPlace } from './node-service.ts';

/** The service's defaults. */
const defaultScalerValue = 4;
const limits = {
  workers: 1_000,
  idleTimeoutS: 3_600,
  maxConcurrency: 1_000,
  executionTimeoutMs: [5_000, 604_800_000],
  maxAttempts: 1_000,
} as const;

/** Checks every endpoint of a deployment and seals its environment. INVALID_ARGUMENT names field and rule. */
export function checkEndpoints(
  specs: readonly EndpointSpec[],
  owner: { readonly account: string; readonly environment: string },
  cipher: Cipher,
): EndpointInput[] {
  if (specs.length === 0) throw invalid('endpoints', 'must hold at least one endpoint');
  name('environment', owner.environment);
  const names = new Set<string>();
  const functions = new Map<string, string>();
  for (const spec of specs) {
    name('endpoints.name', spec.name);
    if (names.has(spec.name)) throw invalid(spec.name, 'is named twice; one configuration name is one endpoint');
    names.add(spec.name);
    for (const fn of spec.functions) {
      const other = functions.get(fn.name);
      if (other !== undefined)
        throw invalid(`${spec.name}.functions`, `function ${fn.name} is also defined by ${other}; names must be unique in an application`);
      functions.set(fn.name, spec.name);
    }
  }
  return specs.map((spec) => check(spec, owner, cipher));
}

function check(spec: EndpointSpec, owner: { readonly account: string; readonly environment: string }, cipher: Cipher): EndpointInput {
  const field = (part: string): string => `${spec.name}.${part}`;
  const kind = spec.kind === EndpointKind.LOAD_BALANCED ? 'LOAD_BALANCED' : 'QUEUE';
  if (kind === 'QUEUE' && spec.functions.length !== 1)
    throw invalid(field('functions'), `a queue endpoint serves exactly one function, not ${spec.functions.length}`);
  if (spec.functions.length === 0) throw invalid(field('functions'), 'must name at least one function');
  for (const fn of spec.functions)
    if (fn.name === '' || fn.module === '') throw invalid(field('functions'), 'each needs a name and a module');
  range(field('workersMax'), spec.workersMax, 0, limits.workers);
  if (spec.workersMin > spec.workersMax) throw invalid(field('workersMin'), `must be at most workersMax (${spec.workersMax})`);
  range(field('idleTimeout'), spec.idleTimeoutS, 1, limits.idleTimeoutS);
  if (spec.gpuIds !== '' && spec.cpu !== '') throw invalid(field('cpu'), 'gpu and cpu are alternatives: give one of them');
  if (spec.executionTimeoutMs !== 0) range(field('executionTimeoutMs'), spec.executionTimeoutMs, ...limits.executionTimeoutMs);
  range(field('maxConcurrency'), spec.maxConcurrency, 0, limits.maxConcurrency);
  range(field('maxAttempts'), spec.maxAttempts, 0, limits.maxAttempts);
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
    idleTimeoutS: spec.idleTimeoutS,
    gpuIds: spec.gpuIds,
    gpuCount: spec.gpuIds === '' ? 0 : Math.max(1, spec.gpuCount),
    cpu: spec.cpu,
    functions: spec.functions,
    runtime: runtimeOf(spec),
    maxConcurrency: Math.max(1, spec.maxConcurrency),
    executionTimeoutMs: spec.executionTimeoutMs,
    scalerType: scalerType === '' ? 'QUEUE_DELAY' : scalerType,
    scalerValue: spec.scalerValue === 0 ? defaultScalerValue : spec.scalerValue,
    maxAttempts: spec.maxAttempts,
    routes: spec.routes,
    limits: limitsOf(spec),
    requestsPerWorker: spec.requestsPerWorker ?? null,
    envSealed: env === '{}' ? null : cipher.encrypt(env, envPlace({ ...owner, name: spec.name })).toString('base64'),
    envDigest: createHash('sha256').update(env).digest('hex'),
  };
}

/** The runtime of a release: Python needs a process; TypeScript and JavaScript may have one. */
function runtimeOf({ name, runtime, functions }: EndpointSpec): string {
  const python = functions.filter(({ module }) => module.endsWith('.py'));
  if (python.length > 0 && python.length < functions.length)
    throw invalid(`${name}.functions`, 'are in Python and in another language; a worker runs one language');
  if (runtime === '') return python.length > 0 ? 'process' : 'thread';
  if (runtime !== 'thread' && runtime !== 'process') throw invalid(`${name}.runtime`, 'must be thread or process');
  if (runtime === 'thread' && python.length > 0) throw invalid(`${name}.runtime`, 'must be process for functions in Python');
  return runtime;
}

function limitsOf(spec: EndpointSpec): Partial<Limits> {
  const limits: Partial<Record<LimitedOperation, Limit>> = {};
  for (const [operation, { requests, concurrent }] of Object.entries(spec.rateLimits)) {
    if (!Object.hasOwn(defaultLimits, operation)) {
      throw invalid(`${spec.name}.rateLimits.${operation}`, `is not an operation; there are ${Object.keys(defaultLimits).join(', ')}`);
    }
    limits[operation as LimitedOperation] = { requests, concurrent };
  }
  return limits;
}

function name(field: string, value: string): void {
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
