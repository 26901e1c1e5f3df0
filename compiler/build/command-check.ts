/** Whether the program of a `command`, and the script that it runs, are there: a worker of it could never start. */
import { accessSync, closeSync, constants, existsSync, openSync, readSync } from 'node:fs';
import { delimiter, join, posix } from 'node:path';

import { listFiles } from '../artifact/files.ts';
import type { Layer } from '../artifact/artifact.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { PYTHON_PACKAGES, type GeneratedFile } from '../artifact/generated.ts';

export interface CheckedCommand {
  /** Of the endpoint. */
  readonly name: string;
  readonly command: readonly string[];
}

export interface CommandCheck {
  /** What is packed. */
  readonly folder: string;
  readonly commands: readonly CheckedCommand[];
  readonly layers: readonly Layer[];
  readonly generated: readonly GeneratedFile[];
  /** PATH of this machine. */
  readonly path: string;
}

/** Programs whose first argument may be a script of the build. */
const INTERPRETER = /^(?:python[\d.]*|node|deno|bun|tsx|ruby|perl|(?:ba|da|z)?sh)$/;
/** Options whose value is the next argument, which is no script of the build. */
const OF_NODE =
  /^(?:-r|-C|--(?:require|import|preload|loader|experimental-loader|conditions|env-file|env-file-if-exists|disable-warning|watch-path|title|tsconfig|test-reporter|test-global-setup))$/;
const WITH_VALUE: readonly (readonly [RegExp, RegExp])[] = [
  [/^python/, /^(?:-[bBdEiIOPqsSuvx]*[WX]|--check-hash-based-pycs)$/],
  [/^(?:node|bun|tsx)$/, OF_NODE],
  [/^deno$/, /^(?:-c|--(?:config|preload|import|import-map|env-file))$/],
  [/^ruby$/, /^-[rIC]$/],
  [/^perl$/, /^-I$/],
  [/sh$/, /^(?:[-+][oO]|--(?:rcfile|init-file))$/],
];
const SCRIPT = /\.(?:py|[cm]?[jt]s|sh|rb|pl)$/;
/** What follows is code, or the name of a module. */
const NO_SCRIPT = /^-(?:[a-zA-Z]*[cem]|-eval|-print)$/;
/** Folders of packages, whose programs this names by their own lists. */
const OF_PACKAGES = /^(?:node_modules|python_packages)\//;

/** Folders of PATH that every Linux has. */
const OF_SYSTEM = /^\/(?:usr\/(?:local\/)?)?s?bin\/?$/;
const OF_LANGUAGE = /^#!.*\b(?:python|pypy|node|bun|deno)/;
const START_BYTES = 256;

/**
 * Returns warnings for programs that only a node may have. @throws CapstanError INVALID_MANIFEST for a file that the artifact lacks, or
 * that cannot be run.
 */
export async function checkCommands({ folder, commands, layers, generated, path }: CommandCheck): Promise<string[]> {
  if (commands.length === 0) return [];
  const { entries } = await listFiles(folder, {});
  const files = new Map(entries.map((entry) => [entry.path, (entry.stat.mode & 0o100) !== 0]));
  for (const { path: name, isProgram = false } of generated) files.set(name, isProgram);
  const programs = layers.some((layer) => layer.programs === undefined)
    ? undefined
    : new Set(layers.flatMap((layer) => layer.programs ?? []));
  const isBrought = (program: string): boolean =>
    programs?.has(program) !== false ||
    files.has(`${PYTHON_PACKAGES}/bin/${program}`) ||
    existsSync(join(folder, 'node_modules/.bin', program));
  return commands.flatMap(({ name, command }) => {
    const [program = '', ...rest] = command;
    if (program.includes('$')) return [];
    if (program.includes('/')) mustRun(name, program, files);
    const interpreter = posix.basename(program);
    const script = INTERPRETER.test(interpreter) ? scriptOf(interpreter, rest) : undefined;
    if (script !== undefined && !files.has(script) && !(layers.length > 0 && OF_PACKAGES.test(script)))
      throw missing(name, script, 'is not in the artifact', 'Name a file of the project; an ignore file may exclude it.');
    if (program.includes('/') || isBrought(program) || INTERPRETER.test(program) || onPath(program, path)) return [];
    return [`endpoint ${name}: the program ${program} is in no package of the build; it starts only on nodes that have it`];
  });
}

/** A path below the project; others are of the node. */
function mustRun(name: string, program: string, files: ReadonlyMap<string, boolean>): void {
  if (program.startsWith('/')) return;
  const path = posix.normalize(program);
  if (OF_PACKAGES.test(path)) return;
  const isRunnable = files.get(path);
  if (isRunnable === undefined)
    throw missing(name, program, 'is not in the artifact', 'Name a file of the project; an ignore file may exclude it.');
  if (!isRunnable)
    throw missing(name, program, 'may not be run', `Allow it (chmod +x ${path}), or run it by its interpreter: ["sh", "${path}"].`);
}

/** A path below the project, normalised. */
function scriptOf(interpreter: string, args: readonly string[]): string | undefined {
  const withValue = WITH_VALUE.find(([name]) => name.test(interpreter))?.[1];
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? '';
    if (withValue?.test(arg) === true) at += 1;
    else if (NO_SCRIPT.test(arg)) return undefined;
    else if (!arg.startsWith('-') && !arg.includes('$')) return SCRIPT.test(arg) && !arg.startsWith('/') ? posix.normalize(arg) : undefined;
  }
  return undefined;
}

/**
 * Whether this machine's system has the program, as that of a node may. What is elsewhere, such as below a home, is this machine's
 * alone, and so is a script of Python or Node: it runs packages that are installed here.
 */
function onPath(program: string, path: string): boolean {
  return path.split(delimiter).some((folder) => {
    if (!OF_SYSTEM.test(folder)) return false;
    try {
      accessSync(join(folder, program), constants.X_OK);
      return !OF_LANGUAGE.test(startOf(join(folder, program)));
    } catch {
      return false; // the next folder may have it
    }
  });
}

/** The first line, as far as it matters. */
function startOf(path: string): string {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(START_BYTES);
    return bytes.toString('latin1', 0, readSync(file, bytes)).split('\n')[0] ?? '';
  } finally {
    closeSync(file);
  }
}

function missing(name: string, what: string, why: string, hint: string): ToolError {
  return new ToolError('INVALID_MANIFEST', `endpoint ${name}: command: ${what} ${why}`, hint);
}
