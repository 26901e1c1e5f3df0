/** The names of a function's parameters, read from its text; enough for a stub, which only has to name what it is given. */
import type { AnyFunction } from './functions.ts';

/** Parameters of these names, at the end, get the job's context. */
const contexts = ['ctx', 'context'];
const closing: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };

/** Undefined when the function takes its input as one object, or its text does not tell. */
export function parameterNames(fn: AnyFunction): string[] | undefined {
  const text = Function.prototype.toString.call(fn).replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, ' ');
  if (/\{\s*\[native code\]\s*\}\s*$/.test(text)) return undefined;
  const lone = /^\s*(?:async\s+)?([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*=>/u.exec(text);
  const inside = lone?.[1] ?? insideOf(text, text.indexOf('('));
  if (inside === undefined) return undefined;
  const names: string[] = [];
  for (const part of splitTop(inside)) {
    const name = /^\s*([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*(=|$)/u.exec(part)?.[1];
    // A pattern or a rest parameter: the function wants an object.
    if (name === undefined) return undefined;
    names.push(name);
  }
  if (contexts.includes(names.at(-1) ?? '')) names.pop();
  return names.length === 1 && names[0] === 'input' ? undefined : names;
}

/** What stands between a bracket and the one that closes it. */
function insideOf(text: string, open: number): string | undefined {
  const end = open < 0 ? -1 : endOf(text, open);
  return end < 0 ? undefined : text.slice(open + 1, end);
}

/** Parts between commas that are in no bracket and no string. */
function splitTop(text: string): string[] {
  const parts: string[] = [];
  let from = 0;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at] ?? '';
    if (character === ',') {
      parts.push(text.slice(from, at));
      from = at + 1;
    } else if (isOpening(character)) {
      const end = endOf(text, at);
      at = end < 0 ? text.length : end;
    }
  }
  parts.push(text.slice(from));
  return parts.filter((part) => part.trim() !== '');
}

/** Position of what closes the bracket or the quote at `open`; -1 without one. */
function endOf(text: string, open: number): number {
  const opening = text[open] ?? '';
  const close = closing[opening] ?? opening;
  for (let at = open + 1; at < text.length; at += 1) {
    const character = text[at] ?? '';
    if (character === close) return at;
    if (character === '\\') at += 1;
    else if (closing[opening] !== undefined && isOpening(character)) {
      const end = endOf(text, at);
      if (end < 0) return -1;
      at = end;
    }
  }
  return -1;
}

function isOpening(character: string): boolean {
  return character in closing || character === "'" || character === '"' || character === '`';
}
