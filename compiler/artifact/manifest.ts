/**
 * Reads the manifest of an application (docs/tool.md). Unknown keys are kept, with a warning when they look like a
 * misspelt known key; a known key must satisfy its rule.
 */
import { z } from 'zod';

import { baseImageOf } from '../../lib/base-images.ts';
import {
  combinedViolations,
  DEFAULT_VALUES,
  PLAIN_NAMES,
  SETTING_NAMES,
  settingViolation,
  type SettingValues,
} from '../../lib/endpoint-settings.ts';
import { environmentFault, ENVIRONMENT_NAME, ENVIRONMENT_NAME_RULE } from '../../lib/environment-values.ts';
import { CapstanError } from '../../lib/errors.ts';
import {
  functionMissing,
  NEEDS_A_ROUTE,
  NO_COMMAND_WITH_FUNCTIONS,
  NO_ROUTES_WITHOUT_FUNCTIONS,
  oneFunctionRule,
} from '../../lib/program-rules.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { closest } from '../../terminal/closest.ts';

export const MANIFEST_NAME = 'tool_manifest.json';

const EXAMPLE = '{"resources": {"hello": {"functions": [{"name": "hello", "module": "hello.ts"}]}}}';

export interface ManifestFunction {
  readonly name: string;
  readonly module: string;
}

/** One endpoint with its defaults. */
export interface ManifestEndpoint extends SettingValues {
  readonly name: string;
  readonly kind: 'queue' | 'load-balanced';
  /** Empty for a worker with its own program. */
  readonly functions: readonly ManifestFunction[];
  /** Secret values. */
  readonly env: Readonly<Record<string, string>>;
  /** Rate limits that differ from the account's, by operation; 0 means no limit. */
  readonly rateLimits: Readonly<Record<string, { readonly requests: number; readonly concurrent: number }>>;
  /** `<METHOD> <path>` → function name. */
  readonly routes: Readonly<Record<string, string>>;
}

export interface Manifest {
  readonly endpoints: readonly ManifestEndpoint[];
  /** The manifest as stored in the artifact: every key unchanged, but no values of `env`, which are secrets. */
  readonly published: string;
  /** Unknown keys that resemble a known one. */
  readonly warnings: readonly string[];
}

const text = z.string('must be a string').min(1, 'must not be empty');
const functionName = z.string('must be a string').regex(/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u, 'must be the name of a function');

const functionSchema = z.looseObject({ name: functionName, module: text }, 'must be an object with the keys name and module');

/** Fields that are not settings; settings have their own rules. */
const resourceSchema = z.looseObject(
  {
    is_load_balanced: z.boolean('must be true or false').nullish(),
    functions: z.array(functionSchema, 'must be an array of {"name", "module"}').min(1, 'must name at least one function').nullish(),
    env: z
      .record(z.string().regex(ENVIRONMENT_NAME, ENVIRONMENT_NAME_RULE), z.string('must be a string'), 'must be an object of strings')
      .nullish(),
  },
  'must be an object',
);

type Resource = z.output<typeof resourceSchema>;

const routesSchema = z.record(
  z.string().regex(/^(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) \/\S*$/, 'must have the form <METHOD> <path>, for example POST /analyze'),
  functionName,
  'must be an object of "<METHOD> <path>": "<function>"',
);

const manifestSchema = z.looseObject(
  {
    resources: z.record(z.string(), z.unknown(), 'must be an object with one entry per endpoint'),
    routes: z.record(z.string(), z.unknown(), 'must be an object with one entry per load-balanced endpoint').nullish(),
  },
  'must be an object with the key resources',
);

/** Known keys, and those that builds and the service's first tool add. */
const knownKeys = {
  manifest: [
    ...Object.keys(manifestSchema.shape),
    ...['version', 'generated_at', 'project_name', 'function_registry', 'source_fingerprint'],
  ],
  resource: [...Object.keys(resourceSchema.shape), ...SETTING_NAMES, 'handler', 'volume'],
  function: [...Object.keys(functionSchema.shape), 'is_async', 'is_class', 'http_method', 'http_path'],
};

/** A broken rule and its place in the manifest. */
interface Breach {
  readonly path: string;
  readonly rule: string;
}

/**
 * Reads a manifest's text. `file` is its name in messages.
 * @throws CapstanError INVALID_MANIFEST, naming every broken rule with its path.
 */
export function readManifest(source: string, file: string): Manifest {
  const raw = parseJson(source, file);
  const outer = manifestSchema.safeParse(raw);
  if (!outer.success) throw invalid(file, violationsOf(outer.error, raw, ''));
  const { resources, routes } = outer.data;
  const names = Object.keys(resources);
  if (names.length === 0) throw invalid(file, [{ path: 'resources', rule: 'must contain at least one endpoint' }]);

  const violations: Breach[] = [];
  const endpoints: ManifestEndpoint[] = [];
  for (const name of names) {
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) {
      const rule = 'an endpoint’s name must be 1 to 64 letters, digits, dots, dashes or underscores, and start with a letter or digit';
      violations.push({ path: at('resources', name), rule });
    }
    const resource = resourceSchema.safeParse(resources[name]);
    const routed = routesSchema.nullish().safeParse(routes?.[name]);
    const settings = settingViolations(resources[name], at('resources', name));
    violations.push(...settings);
    if (!resource.success) violations.push(...violationsOf(resource.error, resources[name], at('resources', name)));
    if (!routed.success) violations.push(...violationsOf(routed.error, routes?.[name], at('routes', name)));
    if (!resource.success || !routed.success || settings.length > 0) continue;
    const endpoint = withDefaults(name, resource.data, routed.data ?? {});
    violations.push(...checkEndpoint(endpoint, resource.data));
    endpoints.push(endpoint);
  }
  for (const name of Object.keys(routes ?? {})) {
    if (!names.includes(name)) violations.push({ path: at('routes', name), rule: 'no endpoint of this name in resources' });
  }
  violations.push(...checkFunctionNames(endpoints));
  if (violations.length > 0) throw invalid(file, violations);
  const warnings = slips(raw, '', knownKeys.manifest);
  for (const [name, resource] of Object.entries(resources)) {
    const path = at('resources', name);
    warnings.push(...slips(resource, path, knownKeys.resource));
    const volume = valueAt(resource, 'volume');
    if (volume !== undefined && volume !== null)
      warnings.push(`${at(path, 'volume')}: is not supported; put shared files into a folder of the hosts or into the image`);
    const functions: unknown = valueAt(resource, 'functions');
    if (Array.isArray(functions))
      functions.forEach((each, index) => warnings.push(...slips(each, `${path}.functions[${index}]`, knownKeys.function)));
  }
  return {
    endpoints,
    warnings: warnings.map((text) => `${file}: ${text}`),
    published: `${JSON.stringify(withoutSecrets(outer.data), null, 2)}\n`,
  };
}

/** Keys of other tools are permitted; a key that resembles a known one is probably a misspelt setting. */
function slips(value: unknown, path: string, known: readonly string[]): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.keys(value).flatMap((key) => {
    const meant = known.includes(key) ? null : closest(key, known);
    return meant === null || Object.hasOwn(value, meant) ? [] : [`${at(path, key)}: is not a known key; did you mean ${meant}?`];
  });
}

/** Settings that break their own rule; rules over several settings are checked later. */
function settingViolations(resource: unknown, prefix: string): Breach[] {
  return SETTING_NAMES.flatMap((name) => {
    const value = valueAt(resource, name);
    // The names and values of `env` are checked one by one with the rest of the resource.
    const violation = name === 'env' || value === undefined || value === null ? null : settingViolation(name, value);
    return violation === null ? [] : [{ path: `${prefix}.${name}${violation.path}`, rule: violation.rule }];
  });
}

/** Every setting was checked. */
function withDefaults(name: string, resource: Resource, routes: Readonly<Record<string, string>>): ManifestEndpoint {
  const given = Object.fromEntries(PLAIN_NAMES.map((key) => [key, resource[key] ?? DEFAULT_VALUES[key]])) as unknown as SettingValues;
  return {
    ...given,
    name,
    kind: resource.is_load_balanced === true ? 'load-balanced' : 'queue',
    gpuCount: given.gpuCount === 0 && given.gpuIds !== '' ? 1 : given.gpuCount,
    packages: [...new Set(given.packages)],
    functions: resource.functions ?? [],
    env: resource.env ?? {},
    rateLimits: (resource['rateLimits'] ?? {}) as ManifestEndpoint['rateLimits'],
    routes,
  };
}

/** The rules over several keys of one endpoint. */
function checkEndpoint(endpoint: ManifestEndpoint, resource: Resource): Breach[] {
  const violations: Breach[] = [];
  const violation = (key: string, rule: string): void => void violations.push({ path: `${at('resources', endpoint.name)}.${key}`, rule });
  const isGiven = (name: string): boolean => (resource[name] ?? null) !== null;
  const kind = endpoint.kind === 'queue' ? 'QUEUE' : 'LOAD_BALANCED';
  for (const { name, rule } of combinedViolations(endpoint, kind, isGiven)) violation(name, rule);
  const fault = environmentFault(endpoint.env);
  if (fault !== null) violation(`env${fault.path}`, fault.rule);
  if (endpoint.gpuIds === '' && endpoint.gpuCount > 0) violation('gpuCount', 'requires gpuIds');
  const ownImage = endpoint.imageName !== '' && baseImageOf(endpoint.imageName) === null;
  if (endpoint.functions.length === 0 && endpoint.command.length === 0 && !ownImage)
    violation(
      'functions',
      'is required and must be an array of objects with the keys name and module, unless there is a command or an image with its own worker',
    );
  if (endpoint.functions.length > 0 && endpoint.command.length > 0) violation('command', NO_COMMAND_WITH_FUNCTIONS);
  const routes = Object.entries(endpoint.routes);
  const routesPath = at('routes', endpoint.name);
  if (endpoint.kind === 'queue') {
    if (endpoint.functions.length > 1) violation('functions', oneFunctionRule(endpoint.functions.length));
    if (routes.length > 0) violations.push({ path: routesPath, rule: 'only an endpoint with is_load_balanced: true may have routes' });
    return violations;
  }
  if (endpoint.functions.length === 0) {
    if (routes.length > 0) violations.push({ path: routesPath, rule: NO_ROUTES_WITHOUT_FUNCTIONS });
    return violations;
  }
  // A worker with its own program listens itself and defines its own routes.
  if (routes.length === 0 && endpoint.functions.length > 0) violations.push({ path: routesPath, rule: NEEDS_A_ROUTE });
  for (const [route, name] of routes) {
    if (endpoint.functions.some((each) => each.name === name)) continue;
    violations.push({ path: at(routesPath, route), rule: functionMissing(name) });
  }
  return violations;
}

/** Two functions of one application must not have the same name. */
function checkFunctionNames(endpoints: readonly ManifestEndpoint[]): Breach[] {
  const seen = new Map<string, string>();
  const violations: Breach[] = [];
  for (const endpoint of endpoints) {
    for (const [index, { name }] of endpoint.functions.entries()) {
      const path = `${at('resources', endpoint.name)}.functions[${index}].name`;
      const other = seen.get(name);
      if (other === undefined) seen.set(name, path);
      else violations.push({ path, rule: `the function ${name} is also defined at ${other}; names must be unique in an application` });
    }
  }
  return violations;
}

function parseJson(source: string, file: string): unknown {
  try {
    return JSON.parse(source.replace(/^\uFEFF/, '')) as unknown;
  } catch (cause) {
    // The parser's own message is not used: it quotes the surrounding text, which may contain a secret.
    const where = /position (\d+)/.exec(cause instanceof Error ? cause.message : '')?.[1];
    const place = where === undefined ? '' : ` (${lineAndColumn(source, Number(where))})`;
    const empty = source.trim() === '' ? ': it is empty' : '';
    throw new ToolError('INVALID_MANIFEST', `${file} is not JSON${place}${empty}`, `The smallest manifest: ${EXAMPLE}`);
  }
}

function lineAndColumn(source: string, position: number): string {
  const before = source.slice(0, position).split('\n');
  return `line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`;
}

function invalid(file: string, violations: readonly Breach[]): CapstanError {
  const [first] = violations;
  const lines = violations.map(({ path, rule }) => (path === '' ? rule : `${path}: ${rule}`));
  const message =
    lines.length === 1
      ? `${file}: ${lines[0] ?? ''}`
      : [`${file} has ${lines.length} errors:`, ...lines.map((line) => `  ${line}`)].join('\n');
  const details = { field: first?.path ?? '' };
  const lacksAll = violations.length === 1 && (first?.path === '' || first?.path === 'resources');
  if (lacksAll) return new ToolError('INVALID_MANIFEST', message, `The smallest manifest: ${EXAMPLE}`, details);
  return new CapstanError('INVALID_MANIFEST', message, details);
}

/** `value` is the checked value, `prefix` its place in the manifest. */
function violationsOf(error: z.ZodError, value: unknown, prefix: string): Breach[] {
  return error.issues.map((issue) => {
    const path = issue.path.reduce<string>(
      (parent, key) => (typeof key === 'number' ? `${parent}[${key}]` : at(parent, String(key))),
      prefix,
    );
    // The rule for a record's key is nested in the issue.
    const rule = issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
    const missing = issue.code === 'invalid_type' && issue.path.reduce<unknown>(valueAt, value) === undefined;
    return { path, rule: missing ? `is required and ${rule}` : rule };
  });
}

function valueAt(parent: unknown, key: PropertyKey): unknown {
  return typeof parent === 'object' && parent !== null ? (parent as Record<PropertyKey, unknown>)[key] : undefined;
}

function at(parent: string, key: string): string {
  const plain = /^[A-Za-z0-9_$-]+$/.test(key);
  if (!plain) return `${parent}[${JSON.stringify(key)}]`;
  return parent === '' ? key : `${parent}.${key}`;
}

/**
 * Builds are stored in plain text and every node can read them: values of `env` are sent separately and encrypted at
 * rest.
 */
function withoutSecrets(manifest: z.output<typeof manifestSchema>): unknown {
  const resources = Object.entries(manifest.resources).map(([name, resource]) => {
    if (typeof resource !== 'object' || resource === null || !('env' in resource)) return [name, resource];
    const { env: _env, ...rest } = resource;
    return [name, rest];
  });
  return { ...manifest, resources: Object.fromEntries(resources) as unknown };
}
