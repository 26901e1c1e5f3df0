/**
 * The rules of one ignore file, as git reads `.gitignore`: letter case counts on every system, the last rule that matches
 * decides, and a rule without a slash matches names at any depth.
 */

interface Rule {
  readonly isNegated: boolean;
  /** The rule ends with a slash. */
  readonly onlyFolders: boolean;
  /** Without a slash: the rule applies to the last part of a path. */
  readonly onlyName: boolean;
  readonly pattern: RegExp;
  /** Its text, before the first wildcard. */
  readonly start: string;
}

/** What a file says of one path: a rule excludes it, a rule with `!` includes it, or none matches. */
export type Verdict = 'excluded' | 'included' | undefined;

const CLASSES: Readonly<Record<string, string>> = {
  alnum: 'A-Za-z0-9',
  alpha: 'A-Za-z',
  blank: ' \\t',
  cntrl: '\\x00-\\x1f\\x7f',
  digit: '0-9',
  graph: '\\x21-\\x7e',
  lower: 'a-z',
  print: '\\x20-\\x7e',
  punct: '!-\\/:-@\\[-`{-~',
  space: '\\s',
  upper: 'A-Z',
  xdigit: '0-9A-Fa-f',
};

export class IgnoreFile {
  readonly #rules: readonly Rule[];

  constructor(text: string) {
    this.#rules = text.split('\n').flatMap((line) => ruleOf(line.replace(/\r$/, '')) ?? []);
  }

  /**
   * `path`: relative to the file's folder. The folders above are not looked at, because nothing below an excluded folder
   * is listed.
   */
  verdict(path: string, isFolder: boolean): Verdict {
    const name = path.slice(path.lastIndexOf('/') + 1);
    const rule = this.#rules.findLast(
      ({ onlyFolders, onlyName, pattern }) => (!onlyFolders || isFolder) && pattern.test(onlyName ? name : path),
    );
    if (rule === undefined) return undefined;
    return rule.isNegated ? 'included' : 'excluded';
  }

  /** Whether a rule with `!` names something below a folder. */
  includesBelow(folder: string): boolean {
    return this.#rules.some(({ isNegated, start }) => isNegated && start.startsWith(`${folder}/`));
  }

  /** Whether a rule with `!` names the path or a folder above it. */
  names(path: string, isFolder: boolean): boolean {
    const own = this.verdict(path, isFolder);
    const slash = path.lastIndexOf('/');
    return own === undefined && slash !== -1 ? this.names(path.slice(0, slash), true) : own === 'included';
  }
}

function ruleOf(line: string): Rule | null {
  if (line.startsWith('#')) return null;
  // A space at the end counts only behind a backslash.
  let text = line.replace(/^((?:\\.|[^\\])*?) +$/s, '$1');
  const isNegated = text.startsWith('!');
  if (isNegated) text = text.slice(1);
  const onlyFolders = text.endsWith('/');
  if (onlyFolders) text = text.slice(0, -1);
  const onlyName = !text.includes('/');
  const pattern = text === '' ? null : patternOf(text.replace(/^\//, ''));
  const [start = ''] = /^[^*?[\\]*/.exec(text.replace(/^\//, '')) ?? [];
  return pattern === null ? null : { isNegated, onlyFolders, onlyName, pattern, start };
}

/** Null for a pattern that matches nothing: an open bracket, or a backslash at the end. */
function patternOf(glob: string): RegExp | null {
  let source = '';
  for (let at = 0; at < glob.length;) {
    const char = glob[at] ?? '';
    if (char === '*') {
      const [stars = ''] = /^\*+/.exec(glob.slice(at)) ?? [];
      const next = glob[at + stars.length];
      const isAlone = stars.length > 1 && (at === 0 || glob[at - 1] === '/') && (next === undefined || next === '/');
      source += !isAlone ? '[^/]*' : next === undefined ? '.*' : '(?:.*/)?';
      at += stars.length + (isAlone && next === '/' ? 1 : 0);
    } else if (char === '?') {
      source += '[^/]';
      at += 1;
    } else if (char === '[') {
      const found = bracketOf(glob, at);
      if (found === null) return null;
      source += found.source;
      at = found.end;
    } else {
      const literal = char === '\\' ? glob[at + 1] : char;
      if (literal === undefined) return null;
      source += literalOf(literal);
      at += char === '\\' ? 2 : 1;
    }
  }
  try {
    return new RegExp(`^${source}$`, 's');
  } catch {
    return null; // a range whose end is before its start
  }
}

/** `[a-c]`, `[!a]`, `[[:digit:]]` at `start`; a slash never matches. */
function bracketOf(glob: string, start: number): { readonly source: string; readonly end: number } | null {
  let at = start + 1;
  const isNegated = glob[at] === '!' || glob[at] === '^';
  if (isNegated) at += 1;
  let members = '';
  for (let isFirst = true; isFirst || glob[at] !== ']'; isFirst = false) {
    const [named, name = ''] = /^\[:(\w*):\]/.exec(glob.slice(at)) ?? [];
    if (named !== undefined) {
      const known = CLASSES[name];
      if (known === undefined) return null;
      members += known;
      at += named.length;
      continue;
    }
    const [text, escaped, plain = escaped] = /^(?:\\(.)|([^\\]))/s.exec(glob.slice(at)) ?? [];
    if (text === undefined || plain === undefined) return null;
    const isRange = text === '-' && !isFirst && glob[at + 1] !== ']';
    members += isRange ? '-' : literalOf(plain);
    at += text.length;
  }
  return { source: `(?!/)[${isNegated ? '^' : ''}${members}]`, end: at + 1 };
}

function literalOf(char: string): string {
  return char.replace(/[\\^$.*+?()[\]{}|/-]/, '\\$&');
}
