/** Finds the place in the user's code that an error message or a stack names, and shows its lines. */
import { readFile, realpath } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface Place {
  /** Relative to the project's folder. */
  readonly file: string;
  readonly line: number;
}

export interface Excerpt extends Place {
  /** The lines around the place, each with its number; the place's own begins with `>`. */
  readonly lines: readonly string[];
}

const BEFORE = 2;
const AFTER = 1;
/** Files that people write are smaller. */
const MAX_BYTES = 2_000_000;
const MAX_LINE = 200;
/** `api.py:3:7: the rule`. */
const MESSAGE = /^([^\s:][^:\n]*):(\d+)(?::\d+)?: /;
const PYTHON_FRAME = /^\s*File "([^"]+)", line (\d+)/gm;
const NODE_FRAME = /^\s*at .*?((?:file:\/\/)?\/[^\n()]*?):(\d+):\d+\)?$/gm;
/** Node prints the place of a syntax error in front of it. */
const NODE_SYNTAX = /^((?:file:\/\/)?\/[^\n]*?):(\d+)$/gm;

/** Returns the innermost place inside the folder; null when the text names none. */
export function placeOf(folder: string, text: string): Place | null {
  const [, file = '', line = ''] = MESSAGE.exec(text) ?? [];
  if (file !== '' && !file.startsWith('/')) return { file, line: Number(line) };
  const python = [...text.matchAll(PYTHON_FRAME)].reverse();
  // The first of Node's frames is the innermost one.
  for (const [, path = '', number = ''] of [...python, ...text.matchAll(NODE_SYNTAX), ...text.matchAll(NODE_FRAME)]) {
    const own = inside(folder, path);
    if (own !== null) return { file: own, line: Number(number) };
  }
  return null;
}

/** Returns the lines around the place that the text names; null when there are none. */
export async function excerptOf(folder: string, text: string): Promise<Excerpt | null> {
  const place = placeOf(await realpath(folder), text);
  if (place === null) return null;
  let source: string;
  try {
    source = await readFile(join(folder, place.file), 'utf8');
  } catch {
    return null; // the file is gone
  }
  if (source.length > MAX_BYTES) return null;
  const all = source.split('\n');
  const first = Math.max(1, place.line - BEFORE);
  const last = Math.min(all.length, place.line + AFTER);
  const width = String(last).length;
  const lines: string[] = [];
  for (let number = first; number <= last; number += 1) {
    const mark = number === place.line ? '>' : ' ';
    lines.push(`${mark} ${String(number).padStart(width)} | ${(all[number - 1] ?? '').slice(0, MAX_LINE)}`.trimEnd());
  }
  return { ...place, lines };
}

/** Returns the path relative to the folder; null when it is not one of the project's own sources. */
function inside(folder: string, given: string): string | null {
  let path: string;
  try {
    path = given.startsWith('file://') ? fileURLToPath(given) : given;
  } catch {
    return null; // not a path of this machine
  }
  const own = relative(folder, path.replace(/\?.*$/, ''));
  if (own === '' || own.startsWith('..') || own.startsWith(sep)) return null;
  return /(^|\/)(node_modules|python_packages|site-packages|\.tool|\.venv)\//.test(own) ? null : own;
}
