/** Reads the names of a function's parameters from its source text, for stubs, which need the names only. */
import type { AnyFunction } from './functions.ts';

const closing: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };

/** Undefined when the function takes its input as one object, or its text does not show the names. */
export function parameterNames(fn: AnyFunction): string[] | undefined {
  const text = Function.prototype.toString.call(fn).replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, ' ');
  if (/\{\s*\[native code\]\s*\}\s*$/.test(text)) return undefined;
  const lone = /^\s*(?:async\s+)?([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*=>/u.exec(text);
  const inside = lone?.[1] ?? insideOf(text, text.indexOf('('));
  if (inside === undefined) return undefined;
  const names: string[] = [];
  for (const part of splitTop(inside)) {
    const name = /^\s*([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*(=|$)/u.exec(part)?.[1];
    // A pattern or a rest parameter: the function takes an object.
    if (name === undefined) return undefined;
    names.push(name);
  }
  // The context: `ctx` at any place, otherwise a last `context`.
  const context = names.includes('ctx') ? names.indexOf('ctx') : names.at(-1) === 'context' ? names.length - 1 : -1;
  if (context !== -1) names.splice(context, 1);
  return names.length === 1 && names[0] === 'input' ? undefined : names;
}

/** Returns the text between a bracket and its closing bracket. */
function insideOf(text: string, open: number): string | undefined {
  const end = open < 0 ? -1 : endOf(text, open);
  return end < 0 ? undefined : text.slice(open + 1, end);
}

/** Splits at commas outside of brackets and strings. */
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

/** Returns the position of the character that closes the bracket or quote at `open`; -1 when there is none. */
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
