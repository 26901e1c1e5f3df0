/** Evaluates environment markers of Python requirements (PEP 508), such as `sys_platform == 'linux' and python_version < '3.12'`. */
import { ToolError } from '../../terminal/tool-error.ts';

/** The variables of markers, by name. */
export type MarkerEnvironment = Readonly<Record<string, string>>;

type Compare = (left: string, right: string) => boolean;

const OPERATORS: Readonly<Record<string, Compare>> = {
  '<': (left, right) => order(left, right) < 0,
  '<=': (left, right) => order(left, right) <= 0,
  '>': (left, right) => order(left, right) > 0,
  '>=': (left, right) => order(left, right) >= 0,
  '==': equals,
  '===': (left, right) => left === right,
  '!=': (left, right) => !equals(left, right),
  '~=': (left, right) => order(left, right) >= 0 && equals(left, `${right.replace(/\.[^.]*$/, '')}.*`),
  in: (left, right) => right.includes(left),
  'not in': (left, right) => !right.includes(left),
};
const TOKEN = /\s*(?:([()])|(?:"([^"]*)"|'([^']*)')|(===|[<>=!~]=|[<>])|(not\s+in|in|and|or)\b|([A-Za-z_][\w.]*))/y;
const VERSION = /^\d+(\.\d+)*(\.\*)?$/;
/** Of a final release, or of one before it: `3.14.0rc2`. A star after an ordering, `>=3.8.*`, is read as pip once did. */
const ORDERED = /^(\d+(?:\.\d+)*)(?:\.\*)?([-_.]?(?:a|b|c|rc|alpha|beta|pre|preview|dev)[-_.]?\d*)?$/i;

/** Hosts run Linux on x86_64. `version`: `3.11`. */
export function hostMarkers(version: string): MarkerEnvironment {
  return environmentOf(version, { os: 'posix', platform: 'linux', system: 'Linux', machine: 'x86_64' });
}

/** This machine. */
export function localMarkers(version: string): MarkerEnvironment {
  const { platform, arch } = process;
  const machine = arch === 'x64' ? 'x86_64' : arch === 'arm64' && platform === 'linux' ? 'aarch64' : arch;
  if (platform === 'win32')
    return environmentOf(version, { os: 'nt', platform, system: 'Windows', machine: machine === 'x86_64' ? 'AMD64' : 'ARM64' });
  return environmentOf(version, { os: 'posix', platform, system: platform === 'darwin' ? 'Darwin' : 'Linux', machine });
}

function environmentOf(
  version: string,
  { os, platform, system, machine }: Readonly<Record<'os' | 'platform' | 'system' | 'machine', string>>,
): MarkerEnvironment {
  return {
    os_name: os,
    sys_platform: platform,
    platform_system: system,
    platform_machine: machine,
    platform_release: '',
    platform_version: '',
    python_version: version,
    python_full_version: `${version}.0`,
    implementation_name: 'cpython',
    implementation_version: `${version}.0`,
    platform_python_implementation: 'CPython',
    extra: '',
  };
}

/** `where`: place of the marker, for messages. @throws CapstanError INVALID_MANIFEST when it is not a marker. */
export function markerHolds(marker: string, environment: MarkerEnvironment, where: string): boolean {
  const tokens = tokensOf(marker);
  const reader = new MarkerReader(tokens ?? [], environment);
  const holds = tokens === null ? null : reader.read();
  if (holds !== null && reader.isAtEnd) return holds;
  throw new ToolError(
    'INVALID_MANIFEST',
    `${where}: ${marker} is not an environment marker`,
    "Correct it; an example is sys_platform == 'linux'.",
  );
}

interface Token {
  readonly kind: 'bracket' | 'text' | 'operator' | 'word';
  readonly text: string;
}

function tokensOf(marker: string): Token[] | null {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  while (marker.slice(TOKEN.lastIndex).trim() !== '') {
    const found = TOKEN.exec(marker);
    if (found === null) return null;
    const [, bracket, double, single, operator, word, name] = found;
    if (bracket !== undefined) tokens.push({ kind: 'bracket', text: bracket });
    else if (operator !== undefined) tokens.push({ kind: 'operator', text: operator });
    else if (word?.endsWith('in') === true) tokens.push({ kind: 'operator', text: word.replace(/\s+/, ' ') });
    else tokens.push((word ?? name) ? { kind: 'word', text: word ?? name ?? '' } : { kind: 'text', text: double ?? single ?? '' });
  }
  return tokens;
}

/** Null: not a marker. */
class MarkerReader {
  readonly #tokens: readonly Token[];
  readonly #environment: MarkerEnvironment;
  #at = 0;

  constructor(tokens: readonly Token[], environment: MarkerEnvironment) {
    this.#tokens = tokens;
    this.#environment = environment;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#tokens.length;
  }

  read(): boolean | null {
    return this.#joined('or', () => this.#joined('and', () => this.#comparison()));
  }

  #joined(word: 'and' | 'or', part: () => boolean | null): boolean | null {
    let result = part();
    while (result !== null && this.#takes('word', word)) {
      const next = part();
      result = next === null ? null : word === 'and' ? result && next : result || next;
    }
    return result;
  }

  #comparison(): boolean | null {
    if (this.#takes('bracket', '(')) {
      const inner = this.read();
      return this.#takes('bracket', ')') ? inner : null;
    }
    const left = this.#value();
    const compare = OPERATORS[this.#tokens[this.#at]?.kind === 'operator' ? (this.#tokens[this.#at]?.text ?? '') : ''];
    this.#at += 1;
    const right = this.#value();
    return left === undefined || compare === undefined || right === undefined ? null : compare(left, right);
  }

  #value(): string | undefined {
    const token = this.#tokens[this.#at];
    this.#at += 1;
    if (token?.kind === 'text') return token.text;
    return token?.kind === 'word' ? this.#environment[token.text.replace('.', '_')] : undefined;
  }

  #takes(kind: Token['kind'], text: string): boolean {
    const token = this.#tokens[this.#at];
    if (token?.kind !== kind || token.text !== text) return false;
    this.#at += 1;
    return true;
  }
}

function equals(left: string, right: string): boolean {
  if (!VERSION.test(left) || !VERSION.test(right)) return left === right;
  const [given, wanted] = left.endsWith('.*') ? [right, left] : [left, right];
  if (!wanted.endsWith('.*')) return order(given, wanted) === 0;
  const parts = wanted.slice(0, -2).split('.');
  return parts.every((part, index) => Number(part) === Number(given.split('.')[index] ?? 0));
}

/** Versions by their numbers, a pre-release before its release; anything else by its text. */
function order(left: string, right: string): number {
  const [ours, theirs] = [ORDERED.exec(left), ORDERED.exec(right)];
  if (ours === null || theirs === null) return byText(left, right);
  const [own, other] = [ours, theirs].map(([, numbers = '']) => numbers.split('.').map(Number)) as [number[], number[]];
  for (let index = 0; index < Math.max(own.length, other.length); index += 1) {
    const difference = (own[index] ?? 0) - (other[index] ?? 0);
    if (difference !== 0) return difference;
  }
  // '~' follows every letter.
  return byText(ours[2] ?? '~', theirs[2] ?? '~');
}

function byText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
