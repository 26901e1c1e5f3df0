/**
 * The settings of an endpoint, each defined once: rule, default, meaning, where it is stored and who may change it. The
 * manifest, the deployment form, GraphQL's types, the scheduler's checks and rows, `capstan endpoints set` and `show`,
 * the tables of the docs and both SDKs read this table. To add a setting, add an entry here and a field of the messages
 * EndpointSpec (and EndpointPatch, if it can be changed without a build); then run `npm run generate`.
 *
 * Name, kind, functions and routes are not settings: they define what the endpoint is.
 */
import type { EndpointSpec } from '../proto/gen/capstan/v1/control.ts';
import { preinstalledPackages } from './base-images.ts';
import { ruleViolation, type RuleViolation, type SettingRule } from './setting-rules.ts';

export type EndpointKindName = 'QUEUE' | 'LOAD_BALANCED';

/** Operations that have rate limits. */
export const LIMITED_OPERATIONS = ['run', 'runsync', 'status', 'stream', 'cancel', 'purge-queue', 'openai', 'requests'] as const;

type SettingValue = number | string | boolean | readonly string[] | null;

interface SettingDefinition {
  readonly rule: SettingRule;
  /** The value of an endpoint that sets none; null where the account or the scheduler decides. */
  readonly default: SettingValue;
  /** Readable meaning: a phrase. */
  readonly docs: string;
  /** The default as shown in the docs, where the value does not express it. */
  readonly defaultDocs?: string;
  /** Name in messages and in the scheduler's state, if different. */
  readonly field?: string;
  /**
   * The message distinguishes 0 from absence; in other messages a 0, an empty string or an empty list that the rule
   * refuses means absence.
   */
  readonly presence?: true;
  /** The only kind of endpoint that may set a value other than the default. */
  readonly only?: EndpointKindName;
  /** Workers depend on settings stored in a release: a change replaces them. */
  readonly keptIn: 'endpoint' | 'release' | 'both';
  /** Can be changed without a build: GraphQL's EndpointSettings, `endpoints set`. */
  readonly updatable?: true;
  /** Shown by GraphQL's Settings and by `endpoints get`. */
  readonly readable?: true;
  /** Parameter of Endpoint(…) in both SDKs, with its default there; null for an optional parameter. */
  readonly declared?: { readonly name?: string; readonly default: SettingValue; readonly docs?: string };
}

export const ENDPOINT_SETTINGS = {
  description: {
    rule: { type: 'text', mayBeEmpty: true, maxLength: 500, printable: true },
    default: '',
    docs: 'description of the endpoint for people, shown by `endpoints get` and on the docs page of a load-balanced endpoint',
    keptIn: 'endpoint',
    updatable: true,
    readable: true,
    declared: { default: '' },
  },
  workersMin: {
    rule: { type: 'integer', min: 0, max: 1000 },
    default: 0,
    docs: 'minimum number of workers, which run without load; at most `workersMax`',
    keptIn: 'endpoint',
    updatable: true,
    readable: true,
  },
  workersMax: {
    rule: { type: 'integer', min: 0, max: 1000 },
    default: 3,
    docs: "maximum number of workers; 0 pauses the endpoint. The account's quota limits the sum over all endpoints",
    keptIn: 'endpoint',
    updatable: true,
    readable: true,
  },
  idleTimeout: {
    rule: { type: 'integer', min: 1, max: 3600, unit: 's' },
    default: 5,
    docs: 'seconds that a worker stays while idle',
    field: 'idleTimeoutS',
    presence: true,
    keptIn: 'endpoint',
    updatable: true,
    readable: true,
    declared: { default: 60 },
  },
  keepIdle: {
    rule: { type: 'flag' },
    default: false,
    docs: "idle workers stay for the idle timeout even while another endpoint's job waits for their device, processor or memory ([autoscaling.md](autoscaling.md#make-room))",
    keptIn: 'endpoint',
    updatable: true,
    readable: true,
    declared: {
      default: false,
      docs: "idle workers do not end early for another endpoint's jobs",
    },
  },
  startTimeout: {
    rule: { type: 'integer', min: 1, max: 3600, unit: 's', zero: "the service's default" },
    default: 0,
    defaultDocs: '0 (900)',
    docs: "seconds within which a worker must be ready, not counting pulls of its image; 0 for the service's default. A worker that is not ready by then has failed to start",
    field: 'startTimeoutS',
    keptIn: 'release',
    updatable: true,
    readable: true,
    declared: { default: 0 },
  },
  executionTimeoutMs: {
    rule: { type: 'integer', min: 5000, max: 604_800_000, unit: 'ms', zero: "the service's default" },
    default: 0,
    defaultDocs: '0 (600000)',
    docs: "maximum run time of a job, in ms; 0 for the service's default",
    keptIn: 'endpoint',
    updatable: true,
    readable: true,
    declared: { default: 0 },
  },
  scalerType: {
    rule: { type: 'choice', values: ['QUEUE_DELAY', 'REQUEST_COUNT'] },
    default: '',
    defaultDocs: '`QUEUE_DELAY`; load-balanced `REQUEST_COUNT`',
    docs: 'scaling metric: the time that the oldest job waits, or jobs and requests per worker ([autoscaling.md](autoscaling.md))',
    keptIn: 'endpoint',
    updatable: true,
    readable: true,
    declared: { default: null },
  },
  scalerValue: {
    rule: { type: 'integer', min: 1, max: 10_000 },
    default: 4,
    docs: '`QUEUE_DELAY`: seconds that the oldest job may wait; `REQUEST_COUNT`: jobs or requests per worker',
    keptIn: 'endpoint',
    updatable: true,
    readable: true,
    declared: { default: 4 },
  },
  delayTarget: {
    rule: { type: 'integer', min: 1, max: 86_400, unit: 's', zero: "three times the endpoint's usual delay" },
    default: 0,
    defaultDocs: '0 (three times the usual delay)',
    docs: "seconds that a job or request may wait before it is reported ([monitoring.md](monitoring.md#attention)); 0 for three times the delay that 95 % of the endpoint's jobs of the last week did not exceed, at least 60",
    field: 'delayTargetS',
    keptIn: 'endpoint',
    updatable: true,
    readable: true,
  },
  maxConcurrency: {
    rule: { type: 'integer', min: 1, max: 1000 },
    default: 1,
    docs: 'jobs or requests that a worker serves concurrently',
    keptIn: 'both',
    updatable: true,
    readable: true,
    declared: { default: 1 },
  },
  maxAttempts: {
    rule: { type: 'integer', min: 1, max: 1000 },
    default: 0,
    defaultDocs: '2',
    docs: 'charged attempts before a job whose workers died ends FAILED ([api-jobs.md](api-jobs.md#attempts))',
    keptIn: 'endpoint',
    updatable: true,
    readable: true,
  },
  gpuIds: {
    rule: { type: 'text' },
    default: '',
    docs: 'GPU types and groups in order of preference, with commas; not with `cpu` ([gpus.md](gpus.md))',
    keptIn: 'both',
    readable: true,
  },
  gpuCount: {
    rule: { type: 'integer', min: 1, max: 64 },
    default: 0,
    defaultDocs: '1 with GPUs',
    docs: 'GPUs of each worker',
    keptIn: 'both',
    readable: true,
    declared: { default: 1, docs: 'GPUs of each worker; requires `gpu`' },
  },
  minCuda: {
    rule: {
      type: 'text',
      mayBeEmpty: true,
      pattern: '(?:[1-9][0-9]?\\.[0-9]{1,2})?',
      form: 'must be a version of two numbers, for example 12.4',
    },
    default: '',
    defaultDocs: 'any',
    docs: 'oldest CUDA that the driver of a GPU must serve, such as `12.4`; requires `gpuIds` ([gpu-hosts.md](gpu-hosts.md#which-cuda-an-image-needs))',
    keptIn: 'release',
    updatable: true,
    readable: true,
    declared: { default: '', docs: 'oldest CUDA that the driver of a GPU must serve; requires `gpu`' },
  },
  minDriver: {
    rule: {
      type: 'text',
      mayBeEmpty: true,
      pattern: '(?:[1-9][0-9]{1,3}(?:\\.[0-9]{1,3}){0,2})?',
      form: 'must be a version of the driver, for example 550 or 550.54.15',
    },
    default: '',
    defaultDocs: 'any',
    docs: 'oldest driver of a GPU, such as `550` or `550.54.15`; requires `gpuIds`',
    keptIn: 'release',
    updatable: true,
    readable: true,
    declared: { default: '', docs: 'oldest driver of a GPU; requires `gpu`' },
  },
  cpu: {
    rule: { type: 'cpu', maxCpus: 512, maxMemoryGb: 8192 },
    default: '',
    defaultDocs: 'without GPUs the smallest: `cpu3c-1-2`',
    docs: 'processors and memory of each worker ([gpus.md](gpus.md))',
    keptIn: 'both',
    readable: true,
    declared: { default: null, docs: 'processors and memory of each worker; without `gpu` and `cpu` the smallest' },
  },
  imageName: {
    rule: { type: 'text', pattern: '\\S+', form: 'must be an image reference without spaces' },
    default: '',
    defaultDocs: "the base image of the functions' language, which the build of declared endpoints sets",
    docs: 'image of a container: your own, or a base image `capstan/base-python`, `capstan/base-node`, each also with `-cuda`. A base image is used on hosts that have it; others run the functions without it',
    keptIn: 'both',
    readable: true,
    declared: { name: 'image', default: null, docs: 'container image' },
  },
  runtime: {
    rule: { type: 'choice', values: ['thread', 'process', 'container'] },
    default: '',
    defaultDocs: "each host's best one",
    docs: 'requires `thread` (handlers in a thread of a host process), `process` (in a process of their own; not in a thread for Python) or `container`',
    keptIn: 'release',
    readable: true,
  },
  network: {
    rule: { type: 'choice', values: ['host', 'outbound', 'none'] },
    default: '',
    defaultDocs: "the account's rule, else the node's default",
    docs: "what workers may reach ([sandboxes.md](sandboxes.md)): the host's network (`host`), public addresses only (`outbound`) or nothing (`none`; functions only). The account's rule may be narrower",
    keptIn: 'release',
    updatable: true,
    readable: true,
    declared: { default: null, docs: 'what workers may reach: `host`, `outbound` or `none`' },
  },
  requestsPerWorker: {
    rule: { type: 'integer', min: 0, max: 1_000_000 },
    default: null,
    defaultDocs: "the account's",
    docs: 'requests per 10 s that each running worker adds to the rate limits',
    presence: true,
    keptIn: 'endpoint',
    updatable: true,
    readable: true,
  },
  rateLimits: {
    rule: { type: 'rateLimits', operations: LIMITED_OPERATIONS, max: 1_000_000 },
    default: null,
    defaultDocs: 'the [table of limits](api-limits.md)',
    docs: "requests per 10 s and requests open at once that differ from the account's; 0 for no limit",
    keptIn: 'endpoint',
    updatable: true,
    readable: true,
  },
  env: {
    rule: { type: 'environment' },
    default: null,
    defaultDocs: 'none',
    docs: 'environment of the workers; stored encrypted, never part of the artifact; may refer to [secrets](secrets.md)',
    keptIn: 'release',
    updatable: true,
  },
  command: {
    rule: { type: 'list', notEmpty: true },
    default: [],
    defaultDocs: 'none',
    docs: "a program that implements the worker protocol itself, in your own image if there is one, else as a process of the host in the build's folder; without `functions`",
    keptIn: 'release',
  },
  packages: {
    rule: { type: 'list', values: preinstalledPackages },
    default: [],
    defaultDocs: 'none',
    docs: 'left out of the build because the base image has them; hosts without the image must have them',
    keptIn: 'release',
  },
  python: {
    rule: { type: 'text', pattern: '[0-9]+\\.[0-9]+', form: 'must be a version of two numbers, for example 3.12' },
    default: '',
    defaultDocs: 'any',
    docs: 'version of Python for which compiled packages of the build are made, such as `3.12`; hosts that run the build without an image must have that version, on x86_64. `build` sets it',
    keptIn: 'release',
  },
  public: {
    rule: { type: 'flag' },
    default: false,
    docs: 'callers need no key; load-balanced endpoints only',
    field: 'isPublic',
    only: 'LOAD_BALANCED',
    keptIn: 'endpoint',
    updatable: true,
    readable: true,
    declared: { default: false, docs: 'callers need no key: everyone who can reach the gateway calls it; load-balanced endpoints only' },
  },
} as const satisfies Readonly<Record<string, SettingDefinition>>;

type Definitions = typeof ENDPOINT_SETTINGS;
export type SettingName = keyof Definitions;

/** Tables by operation or variable: merged and encrypted separately from the plain values. */
type TableName = 'rateLimits' | 'env';
export type PlainName = Exclude<SettingName, TableName>;

type RuleValue<Rule> = Rule extends { readonly type: 'integer' }
  ? number
  : Rule extends { readonly type: 'flag' }
    ? boolean
    : Rule extends { readonly type: 'list' }
      ? readonly string[]
      : Rule extends { readonly type: 'choice'; readonly values: readonly (infer Value)[] }
        ? Value
        : string;
type ValueOf<Name extends PlainName> = RuleValue<Definitions[Name]['rule']> | Extract<Definitions[Name]['default'], '' | null>;
type FieldOf<Name extends SettingName> = Name extends SettingName
  ? Definitions[Name] extends { readonly field: infer Field extends string }
    ? Field
    : Name
  : never;

/** The plain settings by name, as in the manifest and GraphQL. */
export type SettingValues = { readonly [Name in PlainName]: ValueOf<Name> };
/** The same by field, as in messages and the scheduler's state. */
export type SettingFields = { readonly [Name in PlainName as FieldOf<Name>]: ValueOf<Name> };
/** The settings stored in an endpoint's row, or in a release's. */
export type FieldsKeptIn<Place extends 'endpoint' | 'release'> = {
  readonly [Name in PlainName as Definitions[Name]['keptIn'] extends Place | 'both' ? FieldOf<Name> : never]: ValueOf<Name>;
};
/** As in a message: arrays are copies, and null is omitted. */
type MessageValue<Value> = Value extends readonly string[] ? string[] : Value;
export type MessageFields = {
  [Name in PlainName as null extends ValueOf<Name> ? never : FieldOf<Name>]: MessageValue<ValueOf<Name>>;
} & { [Name in PlainName as null extends ValueOf<Name> ? FieldOf<Name> : never]?: Exclude<ValueOf<Name>, null> };

/** All settings in the order of the docs. */
export const SETTING_NAMES = Object.keys(ENDPOINT_SETTINGS) as readonly SettingName[];
export const PLAIN_NAMES = SETTING_NAMES.filter((name): name is PlainName => name !== 'rateLimits' && name !== 'env');

type NamesWith<Mark> = { [Name in SettingName]: Definitions[Name] extends Mark ? Name : never }[SettingName];
export type ReadableName = NamesWith<{ readonly readable: true }>;
export type UpdatableName = NamesWith<{ readonly updatable: true }>;
export const READABLE_NAMES = SETTING_NAMES.filter((name): name is ReadableName => settingOf(name).readable === true);
/** Excludes the tables, `env` and `rateLimits`. */
export type UpdatablePlainName = Exclude<UpdatableName, TableName>;
export const UPDATABLE_PLAIN_NAMES = PLAIN_NAMES.filter((name): name is UpdatablePlainName => settingOf(name).updatable === true);
export const UPDATABLE_NAMES = SETTING_NAMES.filter((name): name is UpdatableName => settingOf(name).updatable === true);

export function settingOf(name: SettingName): SettingDefinition {
  return ENDPOINT_SETTINGS[name];
}

/** Returns the name of a setting in messages and in the scheduler's state. */
export function fieldOf<Name extends PlainName>(name: Name): FieldOf<Name> {
  return (settingOf(name).field ?? name) as FieldOf<Name>;
}

/** Returns the setting of a message field. */
export function settingOfField(field: string): SettingName | undefined {
  return SETTING_NAMES.find((name) => (settingOf(name).field ?? name) === field);
}

export const DEFAULT_VALUES = fromNames((name) => settingOf(name).default) as SettingValues;
export const DEFAULT_FIELDS = fieldsOf(DEFAULT_VALUES);

/** Converts names to fields. */
export function fieldsOf(values: SettingValues): SettingFields {
  return Object.fromEntries(PLAIN_NAMES.map((name) => [fieldOf(name), values[name]])) as unknown as SettingFields;
}

/** Converts fields to names; a message omits null. Does not compile while a setting has no field in the message. */
export function valuesOf(fields: SettingFields | EndpointSpec): SettingValues {
  return fromNames((name) => fields[fieldOf(name)] ?? null) as SettingValues;
}

/** Returns the fields as a message has them. */
export function messageFields(fields: SettingFields): MessageFields {
  const given = PLAIN_NAMES.map((name) => [fieldOf(name), fields[fieldOf(name)]] as const).filter(([, value]) => value !== null);
  return Object.fromEntries(
    given.map(([field, value]) => [field, Array.isArray(value) ? [...(value as readonly string[])] : value]),
  ) as unknown as MessageFields;
}

/** Returns only the fields that are stored in an endpoint's row, or in a release's. */
export function fieldsKeptIn<Place extends 'endpoint' | 'release'>(place: Place, fields: FieldsKeptIn<Place>): FieldsKeptIn<Place> {
  const kept = PLAIN_NAMES.filter((name) => settingOf(name).keptIn === place || settingOf(name).keptIn === 'both').map(fieldOf);
  const all = fields as Partial<SettingFields>;
  return Object.fromEntries(kept.map((field) => [field, all[field]])) as unknown as FieldsKeptIn<Place>;
}

/** Whether a value in a message means absence: then the default applies. */
export function isAbsent(name: SettingName, value: unknown): boolean {
  if (value === undefined || value === null) return true;
  const { rule, presence } = settingOf(name);
  const isZero = value === 0 || value === '' || (Array.isArray(value) && value.length === 0);
  return isZero && presence !== true && ruleViolation(rule, value) !== null;
}

/**
 * Validates a single setting. `value` is a value that was set. The message is the same everywhere; the caller prefixes
 * the path to the setting.
 */
export function settingViolation(name: SettingName, value: unknown): RuleViolation | null {
  return ruleViolation(settingOf(name).rule, value);
}

/** A violation of a rule over several settings, or over the endpoint's kind. */
export interface CombinedViolation {
  readonly name: SettingName;
  readonly rule: string;
}

/** Validates the rules over several settings. `given` are those that did not come from a default. */
export function combinedViolations(
  values: SettingValues,
  kind: EndpointKindName,
  isGiven: (name: PlainName) => boolean = () => true,
): CombinedViolation[] {
  const violations: CombinedViolation[] = [];
  if (values.workersMin > values.workersMax) {
    const byDefault = isGiven('workersMax') ? '' : ', the default';
    violations.push({ name: 'workersMin', rule: `must be at most workersMax (${values.workersMax}${byDefault})` });
  }
  if (values.gpuIds !== '' && values.cpu !== '') violations.push({ name: 'cpu', rule: 'gpuIds and cpu are mutually exclusive' });
  for (const name of ['minCuda', 'minDriver'] as const)
    if (values.gpuIds === '' && values[name] !== '') violations.push({ name, rule: 'requires gpuIds' });
  for (const name of PLAIN_NAMES) {
    const { only, default: otherwise } = settingOf(name);
    if (only === undefined || only === kind || values[name] === otherwise) continue;
    violations.push({ name, rule: `only a ${only === 'QUEUE' ? 'queue' : 'load-balanced'} endpoint may have this setting` });
  }
  return violations;
}

function fromNames(value: (name: PlainName) => unknown): unknown {
  return Object.fromEntries(PLAIN_NAMES.map((name) => [name, value(name)]));
}
