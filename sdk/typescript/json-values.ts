/**
 * Encodes values as JSON by one table (docs/values.md). The worker's host and the SDK have the same file, so that
 * results, chunks, progress and arguments are encoded alike.
 */

/** The part of JSON that TypeScript does not describe: text that JSON.stringify writes as it is. */
const { rawJSON } = JSON as unknown as { readonly rawJSON?: (text: string) => object };

/** A value has no JSON form; the message names its place and its type. */
export class NotJson extends TypeError {}

/** Longest place in a message, characters. */
const LONGEST_PLACE = 200;
const BASE64_STEP = 0x80_00;
/** Containers around a value that are kept as a list. */
const MAX_LISTED = 16;

/** Returns the JSON text. `root`: what places begin with; empty for an object whose keys do. @throws NotJson */
export function jsonText(value: unknown, root: string): string {
  const path: Step[] = root === '' ? [] : [root];
  try {
    // Undefined, as JSON.stringify returns it for a function.
    return JSON.stringify(formOf(value, path, new Around(), '')) ?? 'null';
  } catch (error) {
    if (error instanceof RangeError) throw new NotJson(`${root === '' ? '' : `${root}: `}it is nested too deeply`, { cause: error });
    throw error;
  }
}

type Step = string | number;

/** Returns a place as text: `items[2].price`. */
export function placeOf(path: readonly Step[]): string {
  let text = '';
  for (const step of path) {
    text += typeof step === 'number' ? `[${step}]` : text === '' ? step : `.${step}`;
    if (text.length > LONGEST_PLACE) return `${text.slice(0, LONGEST_PLACE)}…`;
  }
  return text;
}

/** The containers around a value. A list is fastest for a few; in a long one each look would cost as much as the value is deep. */
class Around {
  readonly #first: object[] = [];
  readonly #others = new Set<object>();

  has(value: object): boolean {
    return this.#first.includes(value) || this.#others.has(value);
  }

  enter(value: object): void {
    if (this.#first.length < MAX_LISTED) this.#first.push(value);
    else this.#others.add(value);
  }

  leave(value: object): void {
    if (!this.#others.delete(value)) this.#first.pop();
  }
}

/** Returns the value itself if JSON.stringify writes it by the table, else a copy that it does. */
function formOf(value: unknown, path: Step[], around: Around, key: string): unknown {
  if (typeof value === 'bigint') return digitsOf(value, path);
  if (typeof value !== 'object' || value === null) return value;
  if (around.has(value)) throw new NotJson(`${placeOf(path)}: it contains itself`);
  around.enter(value);
  const made = Array.isArray(value) ? arrayForm(value, path, around) : objectForm(value, path, around, key);
  around.leave(value);
  return made;
}

/** An integer with all its digits: as a number it would lose some. */
function digitsOf(value: bigint, path: readonly Step[]): object {
  if (rawJSON === undefined) throw new NotJson(`${placeOf(path)}: this version of JavaScript cannot write a BigInt as JSON`);
  return rawJSON(value.toString());
}

function arrayForm(value: readonly unknown[], path: Step[], around: Around): readonly unknown[] {
  let copy: unknown[] | undefined;
  for (let index = 0; index < value.length; index += 1) {
    const each = value[index];
    if ((typeof each !== 'object' && typeof each !== 'bigint') || each === null) continue;
    path.push(index);
    const form = formOf(each, path, around, String(index));
    path.pop();
    if (form !== each) (copy ??= [...value])[index] = form;
  }
  return copy ?? value;
}

function objectForm(value: object, path: Step[], around: Around, key: string): unknown {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    const special = specialForm(value, path, key);
    if (special !== value) return formOf(special, path, around, key);
  } else if (isWritten(value)) {
    return formOf(own(value, path, key), path, around, '');
  }
  return recordForm(value, path, around);
}

/** The object's own keys; a copy if one of its values has another form. */
function recordForm(value: object, path: Step[], around: Around): object {
  let copy: Map<string, unknown> | undefined;
  for (const name of Object.keys(value)) {
    const each = (value as Readonly<Record<string, unknown>>)[name];
    if ((typeof each !== 'object' && typeof each !== 'bigint') || each === null) continue;
    path.push(name);
    const form = formOf(each, path, around, name);
    path.pop();
    if (form !== each) (copy ??= new Map(Object.entries(value))).set(name, form);
  }
  // Defined, not assigned: a key may be `__proto__`.
  return copy === undefined ? value : Object.fromEntries(copy);
}

/** The form of an object that is more than its keys; the object itself if it is not. */
function specialForm(value: object, path: readonly Step[], key: string): unknown {
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw new NotJson(`${placeOf(path)}: an invalid Date has no JSON form`);
    return value.toISOString();
  }
  if (value instanceof Map) return Object.fromEntries([...value].map(([name, each]) => [keyText(name, path), each as unknown]));
  if (value instanceof Set) return [...(value as ReadonlySet<unknown>)];
  if (value instanceof ArrayBuffer) return base64(new Uint8Array(value));
  if (value instanceof Uint8Array || value instanceof DataView)
    return base64(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  if (ArrayBuffer.isView(value)) return [...(value as unknown as Iterable<unknown>)];
  if (isWritten(value)) return own(value, path, key);
  if (value instanceof Error) return { name: value.name, message: value.message };
  if (value instanceof RegExp || (Symbol.toStringTag in value && Object.keys(value).length === 0))
    throw new NotJson(`${placeOf(path)}: a value of the type ${typeName(value)} has no JSON form`);
  return value;
}

/** The value writes itself, as a URL does. */
function isWritten(value: object): value is { toJSON(key: string): unknown } {
  return 'toJSON' in value && typeof value.toJSON === 'function';
}

function own(value: { toJSON(key: string): unknown }, path: readonly Step[], key: string): unknown {
  let written: unknown;
  try {
    written = value.toJSON(key);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new NotJson(`${placeOf(path)}: a value of the type ${typeName(value)} could not be written: ${message}`, { cause: error });
  }
  if (typeof written !== 'object' || written === null || !isWritten(written)) return written;
  // Its result is written as it is: asking it again might never end.
  return Object.fromEntries(Object.entries(written).filter(([, each]) => typeof each !== 'function'));
}

function keyText(key: unknown, path: readonly Step[]): string {
  if (typeof key === 'string') return key;
  if (typeof key === 'number' || typeof key === 'boolean' || typeof key === 'bigint') return String(key);
  throw new NotJson(
    `${placeOf(path)}: a key of the type ${typeof key === 'object' && key !== null ? typeName(key) : typeof key} has no JSON form`,
  );
}

function typeName(value: object): string {
  const { constructor } = value;
  return typeof constructor === 'function' && constructor.name !== ''
    ? constructor.name
    : Object.prototype.toString.call(value).slice(8, -1);
}

function base64(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += BASE64_STEP) text += String.fromCharCode(...bytes.subarray(at, at + BASE64_STEP));
  return btoa(text);
}
