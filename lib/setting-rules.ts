/**
 * The kinds of rules for the value of an endpoint's setting, and their error messages. This file imports nothing:
 * `npm run generate` copies it into the TypeScript SDK, which is published without the rest of the repository.
 */

interface IntegerRule {
  readonly type: 'integer';
  readonly min: number;
  readonly max: number;
  /** Unit after the range: `s`, `ms`. */
  readonly unit?: string;
  /** Meaning of 0 where it is allowed below `min`. */
  readonly zero?: string;
}

interface TextRule {
  readonly type: 'text';
  readonly mayBeEmpty?: true;
  /** In characters (code points). */
  readonly maxLength?: number;
  /** One line without control and format characters. */
  readonly printable?: true;
  /** A regular expression for the whole text that means the same in JavaScript and Python, and its message. */
  readonly pattern?: string;
  readonly form?: string;
}

/** A CPU selection, `cpu<gen>-<vCPU>-<RAM GB>`. */
interface CpuRule {
  readonly type: 'cpu';
  readonly maxCpus: number;
  readonly maxMemoryGb: number;
}

interface ChoiceRule {
  readonly type: 'choice';
  readonly values: readonly string[];
}

interface FlagRule {
  readonly type: 'flag';
}

interface ListRule {
  readonly type: 'list';
  /** The list must not be empty if it is set. */
  readonly notEmpty?: true;
  /** Allowed items; without them any string that is not empty. */
  readonly values?: readonly string[];
}

/** By operation: requests per 10 seconds, and concurrent requests. */
interface RateLimitsRule {
  readonly type: 'rateLimits';
  readonly operations: readonly string[];
  readonly max: number;
}

/** Environment values; lib/environment-values.ts has their rule. */
interface EnvironmentRule {
  readonly type: 'environment';
}

export type SettingRule = IntegerRule | TextRule | CpuRule | ChoiceRule | FlagRule | ListRule | RateLimitsRule | EnvironmentRule;

/** A violated rule, at a path below the value (`[0]`, `.run.requests`; empty for the value itself). */
export interface RuleViolation {
  readonly path: string;
  readonly rule: string;
}

const FILLED_TEXT = 'must be a non-empty string';
const CPU_FORM = 'must have the form cpu<gen>-<vCPU>-<RAM GB>, for example cpu3c-4-8';
const CPU_PATTERN = /^[Cc][Pp][Uu][A-Za-z0-9]+-([1-9][0-9]*)-([1-9][0-9]*)$/;

/**
 * Control and format characters, separators of lines and paragraphs, and lone surrogates. Excludes joiners, which
 * scripts and emoji need.
 */
export const UNPRINTABLE: readonly (readonly [first: number, last: number])[] = [
  [0x0, 0x1f],
  [0x7f, 0x9f],
  [0xad, 0xad],
  [0x61c, 0x61c],
  [0x180e, 0x180e],
  [0x200b, 0x200b],
  [0x200e, 0x200f],
  [0x2028, 0x202e],
  [0x2060, 0x2064],
  [0x2066, 0x206f],
  [0xd800, 0xdfff],
  [0xfeff, 0xfeff],
  [0xfff9, 0xfffb],
  [0x13430, 0x1343f],
  [0x1bca0, 0x1bca3],
  [0x1d173, 0x1d17a],
  [0xe0001, 0xe0001],
  [0xe0020, 0xe007f],
];

/**
 * Returns the rule that a value violates, or null. The message is the same wherever a setting is checked, also in the
 * Python SDK.
 */
export function ruleViolation(rule: SettingRule, value: unknown): RuleViolation | null {
  switch (rule.type) {
    case 'integer':
      return isInteger(rule, value) ? null : refused(integerRule(rule), value);
    case 'text':
      return textViolation(rule, value);
    case 'cpu':
      return cpuViolation(rule, value);
    case 'choice':
      return typeof value === 'string' && rule.values.includes(value) ? null : refused(`must be ${alternatives(rule.values)}`, value);
    case 'flag':
      return typeof value === 'boolean' ? null : refused('must be true or false', value);
    case 'list':
      return listViolation(rule, value);
    case 'rateLimits':
      return rateLimitsViolation(rule, value);
    case 'environment':
      return isTable(value) ? null : refused('must be an object of strings', undefined);
  }
}

/** `a`, `a or b`, `a, b or c`. */
export function alternatives(values: readonly string[]): string {
  return values.length < 2 ? values.join() : `${values.slice(0, -1).join(', ')} or ${values.at(-1) ?? ''}`;
}

function isInteger({ min, max, zero }: IntegerRule, value: unknown): boolean {
  if (typeof value !== 'number' || !Number.isInteger(value)) return false;
  return (value === 0 && zero !== undefined) || (value >= min && value <= max);
}

function integerRule({ min, max, unit, zero }: IntegerRule): string {
  const range = `between ${min} and ${max}${unit === undefined ? '' : ` ${unit}`}`;
  return zero === undefined ? `must be an integer ${range}` : `must be 0 (${zero}) or ${range}`;
}

function textViolation({ mayBeEmpty, maxLength, printable, pattern, form }: TextRule, value: unknown): RuleViolation | null {
  if (typeof value !== 'string') return refused(mayBeEmpty === true ? 'must be a string' : FILLED_TEXT, value);
  if (mayBeEmpty !== true && value.trim() === '') return refused(FILLED_TEXT, value);
  const characters = Array.from(value);
  if (maxLength !== undefined && characters.length > maxLength)
    return refused(`must have at most ${maxLength} characters, not ${characters.length}`, undefined);
  if (printable === true) {
    const at = characters.findIndex((character) => isUnprintable(character.codePointAt(0) ?? 0));
    if (at >= 0) {
      const code = (characters[at]?.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
      return refused(`must be one line of printable characters; character ${at + 1} is U+${code}`, undefined);
    }
  }
  if (pattern !== undefined && !new RegExp(`^(?:${pattern})$`).test(value)) return refused(form ?? '', value);
  return null;
}

function isUnprintable(code: number): boolean {
  return UNPRINTABLE.some(([first, last]) => code >= first && code <= last);
}

function cpuViolation({ maxCpus, maxMemoryGb }: CpuRule, value: unknown): RuleViolation | null {
  if (typeof value !== 'string' || value.trim() === '') return refused(FILLED_TEXT, value);
  const [, cpus, memoryGb] = CPU_PATTERN.exec(value) ?? [];
  if (cpus === undefined || memoryGb === undefined) return refused(CPU_FORM, value);
  if (Number(cpus) <= maxCpus && Number(memoryGb) <= maxMemoryGb) return null;
  return refused(`must have at most ${maxCpus} vCPU and ${maxMemoryGb} GB`, value);
}

function listViolation({ notEmpty, values }: ListRule, value: unknown): RuleViolation | null {
  if (!Array.isArray(value)) return refused('must be an array of strings', value);
  if (notEmpty === true && value.length === 0) return refused('must not be empty', undefined);
  for (const [index, item] of (value as unknown[]).entries()) {
    const path = `[${index}]`;
    if (values === undefined) {
      if (typeof item !== 'string' || item === '' || item.includes('\0'))
        return { path, rule: `${FILLED_TEXT} without the character NUL${shown(item)}` };
    } else if (typeof item !== 'string' || !values.includes(item))
      return { path, rule: `must be one of ${values.join(', ')}${shown(item)}` };
  }
  return null;
}

function rateLimitsViolation({ operations, max }: RateLimitsRule, value: unknown): RuleViolation | null {
  if (!isTable(value)) return refused('must be an object of {"requests", "concurrent"} by operation', undefined);
  for (const [operation, limit] of Object.entries(value)) {
    const path = /^[A-Za-z0-9_-]+$/.test(operation) ? `.${operation}` : `[${JSON.stringify(operation)}]`;
    if (!operations.includes(operation)) return { path, rule: `must be one of ${operations.join(', ')}` };
    if (!isTable(limit)) return { path, rule: 'must be an object {"requests", "concurrent"}' };
    for (const part of ['requests', 'concurrent'] as const) {
      const found = ruleViolation({ type: 'integer', min: 0, max }, limit[part]);
      if (found !== null) return { path: `${path}.${part}`, rule: found.rule };
    }
  }
  return null;
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Longest value repeated in an error message, in characters of JSON. */
const LONGEST_SHOWN = 60;

function refused(rule: string, value: unknown): RuleViolation {
  return { path: '', rule: `${rule}${shown(value)}` };
}

function shown(value: unknown): string {
  if (value === undefined) return '';
  const text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? typeof value);
  return text.length > LONGEST_SHOWN ? '' : `, not ${text}`;
}
