/** Validates deployments. */
import { MAX_DEFAULT_LENGTH, MAX_DESCRIPTION_LENGTH, MAX_SCHEMA_LENGTH, MAX_SCHEMAS_LENGTH } from '../../lib/parameter-schemas.ts';
import { createHash } from 'node:crypto';

import { baseImageOf } from '../../lib/base-images.ts';
import {
  combinedViolations,
  DEFAULT_VALUES,
  fieldsOf,
  isAbsent,
  PLAIN_NAMES,
  settingViolation,
  valuesOf,
  type SettingName,
  type SettingValues,
} from '../../lib/endpoint-settings.ts';
import { normalSettings } from '../../lib/normal-settings.ts';
import { NAME, NAME_RULE } from '../../lib/endpoint-names.ts';
import { environmentFault } from '../../lib/environment-values.ts';
import { referenceFault, secretNames } from '../../lib/secret-references.ts';
import { CapstanError } from '../../lib/errors.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { EndpointSpec } from '../../proto/gen/capstan/v1/control.ts';
import type { IsolationRules } from '../core/events.ts';
import { checkIsolation } from './isolation-rules.ts';
import type { EndpointInput } from '../core/state/endpoints.ts';
import type { Limits } from '../core/state/rate-limits.ts';
import { places } from '../core/control/encryption.ts';
import type { GpuTable } from '../../lib/gpu-table.ts';
import {
  functionMissing,
  NEEDS_A_ROUTE,
  NO_COMMAND_WITH_FUNCTIONS,
  NO_ROUTES_WITHOUT_FUNCTIONS,
  oneFunctionRule,
} from '../../lib/program-rules.ts';
import { languageOf } from '../core/fleet/placement/runtime-choice.ts';
import type { Cipher } from '../secrets/cipher.ts';

/** The owner of a deployment, and the data it is validated against. */
export interface ValidationContext {
  readonly account: string;
  readonly environment: string;
  readonly gpus: GpuTable;
  /** GPU models of the nodes. */
  readonly fleet: ReadonlySet<string>;
  /** Rules for the account's workers. */
  readonly rules: IsolationRules;
}

/** A validated endpoint with its environment in plaintext. Must not be logged. */
export interface CheckedEndpoint extends Omit<EndpointInput, 'envSealed'> {
  readonly env: string;
}

/**
 * Encrypts the environment. Must be called in the turn of the event loop that passes the command on: a value that waits
 * after its encryption might outlast its key.
 */
export function encryptEnv(
  { env, ...checked }: CheckedEndpoint,
  cipher: Cipher,
  owner: { readonly account: string; readonly environment: string },
): EndpointInput {
  const place = places.env({ ...owner, name: checked.name });
  return { ...checked, envSealed: env === '{}' ? null : cipher.encrypt(env, place).toString('base64') };
}

/** Validates every endpoint of a deployment. INVALID_ARGUMENT names field and rule. */
export function checkEndpoints(specs: readonly EndpointSpec[], around: ValidationContext): CheckedEndpoint[] {
  if (specs.length === 0) throw invalid('endpoints', 'must contain at least one endpoint');
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

/** Validates one endpoint by itself, and the new values of its environment. */
export function checkEndpoint(spec: EndpointSpec, around: ValidationContext, newEnv = spec.env): CheckedEndpoint {
  const field = (part: string): string => `${spec.name}.${part}`;
  const kind = spec.kind === EndpointKind.LOAD_BALANCED ? 'LOAD_BALANCED' : 'QUEUE';
  const settings = settingsOf(spec);
  checkProgram(spec, kind);
  checkIsolation(spec, around.rules);
  const normal = normalSettings(kind, settings);
  const [combined] = combinedViolations(settings, kind);
  if (combined !== undefined) throw invalid(field(combined.name), combined.rule);
  checkGpus(spec, around);
  // An environment that no process can start with must not become a release: its workers would always fail.
  const fault = environmentFault(newEnv) ?? referenceFault(spec.env);
  if (fault !== null) throw invalid(field(`env${fault.path}`), fault.rule);
  checkRoutes(spec, kind);
  const env = JSON.stringify(Object.fromEntries(Object.entries(spec.env).sort(([a], [b]) => (a < b ? -1 : 1))));
  return {
    name: spec.name,
    kind,
    functions: spec.functions,
    routes: spec.routes,
    ...fieldsOf(normal),
    scalerType: normal.scalerType,
    limits: limitsOf(spec),
    env,
    envDigest: createHash('sha256').update(env).digest('hex'),
    secretNames: secretNames(spec.env),
  };
}

/** Validates each setting by itself. An absent one gets its default. */
function settingsOf(spec: EndpointSpec): SettingValues {
  const values: Readonly<Record<string, unknown>> = valuesOf(spec);
  const names = PLAIN_NAMES.filter((name) => !isAbsent(name, values[name]));
  for (const name of names) mustFollowRule(spec.name, name, values[name]);
  return { ...DEFAULT_VALUES, ...Object.fromEntries(names.map((name) => [name, values[name]])) };
}

function mustFollowRule(endpoint: string, name: SettingName, value: unknown): void {
  const violation = settingViolation(name, value);
  if (violation !== null) throw invalid(`${endpoint}.${name}${violation.path}`, violation.rule);
}

/** Validates routes: `<METHOD> <path>`, with the name of a function of the endpoint. */
function checkRoutes({ name, routes, functions }: EndpointSpec, kind: 'QUEUE' | 'LOAD_BALANCED'): void {
  const entries = Object.entries(routes);
  if (kind === 'QUEUE') {
    if (entries.length > 0) throw invalid(`${name}.routes`, 'only a load-balanced endpoint may have routes');
    return;
  }
  if (functions.length === 0) {
    if (entries.length > 0) throw invalid(`${name}.routes`, NO_ROUTES_WITHOUT_FUNCTIONS);
    return;
  }
  if (entries.length === 0 && functions.length > 0) throw invalid(`${name}.routes`, NEEDS_A_ROUTE);
  for (const [route, fn] of entries) {
    if (!/^(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) \/\S*$/.test(route))
      throw invalid(`${name}.routes`, `${JSON.stringify(route)} must have the form <METHOD> <path>`);
    if (!functions.some((each) => each.name === fn)) throw invalid(`${name}.routes`, `${route}: ${functionMissing(fn)}`);
  }
}

/** Validates the program: functions of the build, or a worker that implements the worker protocol. */
function checkProgram(spec: EndpointSpec, kind: 'QUEUE' | 'LOAD_BALANCED'): void {
  const field = (part: string): string => `${spec.name}.${part}`;
  const { functions, command, imageName } = spec;
  const ownImage = imageName !== '' && baseImageOf(imageName) === null;
  if (functions.length === 0) {
    if (!ownImage && command.length === 0)
      throw invalid(field('functions'), 'must name at least one function, unless there is a command or an image with its own worker');
  } else if (command.length > 0) throw invalid(field('command'), NO_COMMAND_WITH_FUNCTIONS);
  if (kind === 'QUEUE' && functions.length > 1) throw invalid(field('functions'), oneFunctionRule(functions.length));
  for (const fn of functions)
    if (fn.name === '' || fn.module === '') throw invalid(field('functions'), 'must each have a name and a module');
  const signatures = functions.flatMap((fn) => [fn, ...(fn.classSpec?.methods ?? [])]);
  const schemas = signatures.flatMap(({ parameters }) => parameters.map(({ schema = '' }) => schema.length));
  if (schemas.some((length) => length > MAX_SCHEMA_LENGTH) || schemas.reduce((sum, length) => sum + length, 0) > MAX_SCHEMAS_LENGTH)
    throw invalid(
      field('functions'),
      `must have schemas of at most ${MAX_SCHEMA_LENGTH} characters for each parameter and ${MAX_SCHEMAS_LENGTH} in all`,
    );
  const texts = functions.flatMap(({ description = '' }) => description.length);
  const defaults = signatures.flatMap(({ parameters }) => parameters.map(({ defaultValue = '' }) => defaultValue.length));
  if (Math.max(0, ...texts) > MAX_DESCRIPTION_LENGTH || Math.max(0, ...defaults) > MAX_DEFAULT_LENGTH)
    throw invalid(
      field('functions'),
      `must have descriptions of at most ${MAX_DESCRIPTION_LENGTH} characters and defaults of at most ${MAX_DEFAULT_LENGTH}`,
    );
  checkRuntime(spec, ownImage);
}

/** Validates that the runtime forced by an endpoint can run it. */
function checkRuntime(spec: EndpointSpec, ownImage: boolean): void {
  const { name, runtime, functions, imageName } = spec;
  const python = functions.filter(({ module }) => module.endsWith('.py'));
  if (python.length > 0 && python.length < functions.length)
    throw invalid(`${name}.functions`, 'must not mix Python with another language; a worker runs one language');
  const language = languageOf(spec);
  const base = imageName === '' ? null : baseImageOf(imageName);
  if (base !== null && language !== null && base.language !== language)
    throw invalid(`${name}.imageName`, `${imageName} is for ${base.language}, and the functions are not`);
  const field = `${name}.runtime`;
  if (runtime === '') return;
  if (ownImage && runtime !== 'container') throw invalid(field, `must be container for the image ${imageName}`);
  if (runtime === 'thread' && python.length > 0) throw invalid(field, 'must be process or container for functions in Python');
  if (language !== null) return;
  if (runtime === 'thread') throw invalid(field, 'must be process or container for a command');
  if (runtime === 'container' && imageName === '') throw invalid(`${name}.imageName`, 'is required: the image in which the command runs');
}

/** Validates GPU types and groups: they must be known to the service. */
function checkGpus({ name, gpuIds }: EndpointSpec, { gpus, fleet }: ValidationContext): void {
  const fault = gpuIds === '' ? null : gpus.fault(gpuIds, fleet);
  if (fault !== null) throw invalid(`${name}.gpuIds`, fault);
}

function limitsOf({ name, rateLimits }: EndpointSpec): Partial<Limits> {
  mustFollowRule(name, 'rateLimits', rateLimits);
  return Object.fromEntries(
    Object.entries(rateLimits).map(([operation, { requests, concurrent }]) => [operation, { requests, concurrent }]),
  );
}

/** Validates a name of an endpoint, environment or account. */
export function checkName(field: string, value: string): void {
  if (!NAME.test(value)) throw invalid(field, `${JSON.stringify(value)} ${NAME_RULE}`);
}

function invalid(field: string, rule: string): CapstanError {
  return new CapstanError('INVALID_ARGUMENT', `${field}: ${rule}`, { field });
}
