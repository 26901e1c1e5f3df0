/**
 * Reads the declarations of Python files with this machine's Python: one process parses all files, and none of them is
 * run.
 */
import { realpath } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { z } from 'zod';

import { CallStyle } from '../../proto/gen/capstan/v1/nodes.ts';
import { pathViolation } from '../../sdk/typescript/routes.ts';
import { listFiles } from '../artifact/files.ts';
import { described, UNREAD, type Reading } from '../signatures/parameters.ts';
import { pythonParameter } from '../signatures/python.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { pythonAppOf } from './app.ts';
import type { DeclaredEndpoint, DeclaredFunction, DeclaredMethod, FileError, NeededModule } from './declared.ts';
import { errorOf } from './file-error.ts';
import { PythonReader } from './python-reader.ts';
import { broken, FORMER_PARAMETERS, nestedWarning, notLiteral, settingsOf, type LookUp, type Place } from './settings.ts';

const argument = z.object({ line: z.number(), value: z.unknown().optional(), problem: z.string().optional() });
const method = z.object({
  is_async: z.boolean(),
  is_generator: z.boolean(),
  style: z.enum(['positional', 'whole', 'unread']),
  parameters: z.array(pythonParameter),
});
const functionRow = z.object({
  ...method.partial().shape,
  description: z.string().optional(),
  name: z.string(),
  line: z.number(),
  is_class: z.boolean(),
  methods: z.record(z.string(), method).optional(),
  method: z.string().optional(),
  path: argument.optional(),
});
const placed = z.object({ line: z.number(), column: z.number(), message: z.string() });
const fileSchema = z.object({
  path: z.string(),
  syntax: placed.optional(),
  /** A statement that cannot work in a worker. */
  fault: placed.optional(),
  declarations: z
    .array(
      z.object({
        line: z.number(),
        settings: z.record(z.string(), argument),
        functions: z.array(functionRow),
        app_file: z.string().nullish(),
        app_imports: z.array(z.string()).default([]),
      }),
    )
    .default([]),
  /** Declarations that are not at the top level. */
  nested: z.array(z.object({ line: z.number(), within: z.string() })).default([]),
  imports: z.array(z.string()).default([]),
});
const answerSchema = z.object({
  version: z.string(),
  files: z.array(fileSchema),
  roots: z.array(z.string()),
  imported: z.array(z.object({ path: z.string(), by: z.string(), line: z.number(), column: z.number() })),
  needed: z.array(z.object({ name: z.string(), by: z.string(), line: z.number() })),
});

type Row = z.output<typeof functionRow>;

export interface PythonSources {
  readonly version: string;
  readonly endpoints: readonly DeclaredEndpoint[];
  /** Folders that imports start from besides the project's own, relative to it: `src`. */
  readonly roots: readonly string[];
  readonly needed: readonly NeededModule[];
  /** What was read and has no effect. */
  readonly warnings: readonly string[];
  readonly errors: readonly FileError[];
}

/**
 * Reads the files. `errors`: INVALID_MANIFEST with file, line and column of a syntax error or of a value that is not
 * literal. @throws CapstanError CONFIG when this machine has no suitable Python.
 */
export async function readPythonFiles(
  folder: string,
  files: readonly string[],
  lookUp: LookUp,
  reader: PythonReader,
): Promise<PythonSources> {
  const { version, files: read, roots, imported, needed } = answerSchema.parse(await reader.read({ root: folder, files }));
  const endpoints: DeclaredEndpoint[] = [];
  const errors: FileError[] = [];
  const warnings: string[] = [];
  for (const file of read) {
    try {
      endpoints.push(...endpointsOf(file, version, lookUp));
      warnings.push(...file.nested.map(({ line, within }) => nestedWarning(file.path, line, within)), ...ignoredSettings(file));
    } catch (thrown) {
      errors.push(errorOf(file.path, thrown));
    }
  }
  const packed = await packedFiles(folder);
  const left = imported.filter(({ path }) => !packed.has(path));
  const places = await Promise.all(left.map(async (each) => ({ ...each, real: await realPathIn(folder, each.path) })));
  for (const { path, by, line, column, real } of places) {
    if (real !== null && packed.has(real)) continue;
    const message = `${by}:${line}:${column}: the import is ${path}, which an ignore file or its name keeps out of the artifact`;
    errors.push({ file: by, error: new ToolError('INVALID_MANIFEST', message, 'Change the rule in .gitignore or .toolignore.') });
  }
  return { version, endpoints, roots, warnings, errors, needed: foreign(needed, packed) };
}

/**
 * Returns what modules of the project and scripts of commands import, and neither the project nor the standard library has. With a
 * written manifest. @throws CapstanError CONFIG when this machine has no suitable Python.
 */
export async function neededByPython(
  folder: string,
  sources: { readonly modules: readonly string[]; readonly commands: readonly (readonly string[])[] },
): Promise<NeededModule[]> {
  const reader = new PythonReader();
  try {
    const { needed } = answerSchema.parse(await reader.read({ root: folder, files: [], ...sources }));
    return foreign(needed, await packedFiles(folder));
  } finally {
    await reader.close();
  }
}

async function packedFiles(folder: string): Promise<Set<string>> {
  return new Set((await listFiles(folder, { skip: (name) => name === 'node_modules' })).entries.map(({ path }) => path));
}

/** A file that changes `sys.path` finds modules anywhere in the project. */
function foreign(needed: z.output<typeof answerSchema>['needed'], packed: ReadonlySet<string>): NeededModule[] {
  const own = new Set([...packed].flatMap((path) => path.replace(/\.(py|so|pyd)$/, '').split('/')));
  return needed.filter(({ name }) => !own.has(name)).map(({ name, by, line }) => ({ language: 'python', name, place: `${by}:${line}` }));
}

function ignoredSettings({ path, declarations }: z.output<typeof fileSchema>): string[] {
  return declarations.flatMap(({ line, settings }) => {
    const names = Object.keys(settings).filter((name) => FORMER_PARAMETERS.has(name));
    return names.length === 0 ? [] : [`${path}:${line}: ${names.join(', ')}: no effect; hosts are where their operator has them`];
  });
}

/** Null outside of the folder. */
async function realPathIn(folder: string, path: string): Promise<string | null> {
  const inner = relative(await realpath(folder), await realpath(join(folder, path)));
  return inner.startsWith('..') ? null : inner;
}

function endpointsOf(file: z.output<typeof fileSchema>, version: string, lookUp: LookUp): DeclaredEndpoint[] {
  if (file.syntax !== undefined) {
    const { line, column, message } = file.syntax;
    throw new ToolError(
      'INVALID_MANIFEST',
      `${file.path}:${line}:${column}: ${message} (read by Python ${version})`,
      'Correct the source.',
    );
  }
  if (file.fault !== undefined) {
    const { line, column, message } = file.fault;
    throw new ToolError('INVALID_MANIFEST', `${file.path}:${line}:${column}: ${message}`, 'Correct the source.');
  }
  return file.declarations.map(({ line, settings, functions, app_file: appFile, app_imports: appImports }) => {
    const place: Place = { file: file.path, line, language: 'python' };
    const checked = settingsOf(settings, place, lookUp);
    return {
      name: checked.name,
      language: 'python',
      file: file.path,
      place: `${file.path}:${line}`,
      settings: checked,
      functions: functions.map((row) => functionOf(row, checked.name, file.path)),
      imports: [...new Set([...file.imports, ...appImports])].sort(),
      app: pythonAppOf(checked.app, appFile ?? null, place, checked.name),
    };
  });
}

function functionOf(row: Row, endpoint: string, file: string): DeclaredFunction {
  const place: Place = { file, line: row.line, language: 'python' };
  const methods = Object.entries(row.methods ?? {}).map(([name, each]) => [name, methodOf(each)] as const);
  if (row.is_class && methods.length === 0) throw broken(place, `endpoint ${endpoint}: the class ${row.name} has no public method`);
  if (row.is_class && row.method !== undefined)
    throw broken(place, `endpoint ${endpoint}: the route ${row.method} must have a function, and ${row.name} is a class`);
  return {
    name: row.name,
    isExported: true,
    isClass: row.is_class,
    methods: Object.fromEntries(methods),
    route: routeOf(row, endpoint, place),
    place: `${file}:${row.line}`,
    ...methodOf(row),
  };
}

function routeOf({ method, path, name, parameters = [], style }: Row, endpoint: string, place: Place): DeclaredFunction['route'] {
  if (method === undefined || path === undefined) return null;
  if (path.problem !== undefined) throw notLiteral('the path of a route', path.problem, { ...place, line: path.line });
  const violation = pathViolation(path.value ?? undefined);
  if (violation !== null)
    throw broken(
      { ...place, line: path.line },
      `endpoint ${endpoint}: the path of ${name} ${violation}, as in @api.${method.toLowerCase()}("/health")`,
    );
  const template = String(path.value);
  for (const [, parameter = ''] of template.matchAll(/\{(\w+)\}/g)) {
    if (style === 'positional' && !parameters.some((each) => each.name === parameter || each.type === 'request'))
      throw broken(place, `endpoint ${endpoint}: ${name} must have the parameter ${parameter} of ${method} ${template}`);
  }
  return { method, path: template };
}

function methodOf({
  is_async: isAsync,
  is_generator: isGenerator,
  style,
  parameters,
  description,
}: Partial<Pick<Row, 'is_async' | 'is_generator' | 'style' | 'parameters' | 'description'>>): DeclaredMethod {
  const reading = described(readingOf(style, parameters ?? []), description);
  return { isAsync: isAsync ?? false, isGenerator: isGenerator ?? false, reading };
}

function readingOf(style: string | undefined, parameters: z.output<typeof method>['parameters']): Reading {
  if (style === 'whole') return { style: CallStyle.WHOLE, parameters: [] };
  if (style !== 'positional') return UNREAD;
  return { style: CallStyle.POSITIONAL, parameters };
}
