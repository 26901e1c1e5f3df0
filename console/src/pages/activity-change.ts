/** What an entry of the audit log changed, as lines of one setting each. Pure. */
export interface ChangeLine {
  readonly name: string;
  /** Empty: there was none. */
  readonly before: string;
  readonly after: string;
}

const MAX_DEPTH = 4;

/** Returns the facts of both states by name, nested ones as `endpoints.chat.workersMax`. */
export function changeLines(before: unknown, after: unknown): readonly ChangeLine[] {
  const [from, to] = [flat(before), flat(after)];
  return [...new Set([...from.keys(), ...to.keys()])].map((name) => ({ name, before: from.get(name) ?? '', after: to.get(name) ?? '' }));
}

function flat(facts: unknown, prefix = '', depth = 0): ReadonlyMap<string, string> {
  if (!isObject(facts)) return new Map();
  const found = new Map<string, string>();
  for (const [key, value] of Object.entries(facts)) {
    const name = `${prefix}${key}`;
    if (isObject(value) && depth < MAX_DEPTH) {
      for (const [inner, text] of flat(value, `${name}.`, depth + 1)) found.set(inner, text);
    } else if (value !== null) found.set(name, textOf(value));
  }
  return found;
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return Array.isArray(value) && value.every((each) => typeof each === 'string') ? value.join(', ') : JSON.stringify(value);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
