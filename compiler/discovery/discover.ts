/** Finds the endpoints that a folder's sources declare, and checks the rules over all of them. */
import { sameRoute } from '../../sdk/typescript/routes.ts';
import type { CapstanError } from '../../lib/errors.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import type { DeclaredApplication, DeclaredEndpoint, DeclaredFunction, FileError, NeededModule } from './declared.ts';
import { errorOf } from './file-error.ts';
import { neededByScripts, readNodeImports } from './node-imports.ts';
import { readNodeFile } from './node.ts';
import { PythonReader } from './python-reader.ts';
import { readPythonFiles } from './python.ts';
import { ScriptHeaders } from './script-header.ts';
import type { LookUp } from './settings.ts';
import { sourcesOf } from './sources.ts';

/** Printed when nothing is declared. */
export const EXAMPLE = `Declare one, in Python:
    from capstan import Endpoint

    @Endpoint(name="hello", workers=(0, 1))
    def hello(name: str):
        return f"Hello {name}"
or in TypeScript:
    import { endpoint } from '@capstan/sdk';

    export const hello = endpoint({ name: 'hello', workers: [0, 1] }, (name: string) => \`Hello \${name}\`);`;

/** The list may be empty. @throws CapstanError INVALID_MANIFEST with file, line and rule. */
export async function discover(folder: string, lookUp: LookUp): Promise<DeclaredApplication> {
  const reader = new PythonReader();
  try {
    const { application, errors } = await discoverFiles(folder, lookUp, reader);
    const [first] = errors;
    if (first !== undefined) throw first.error;
    return application;
  } finally {
    await reader.close();
  }
}

export interface DiscoveredFiles {
  /** The endpoints of the files without an error. */
  readonly application: DeclaredApplication;
  /** At most one for each file. */
  readonly errors: readonly FileError[];
}

/** As `discover`, but an error of one file leaves out the endpoints of that file only. The caller closes the reader. */
export async function discoverFiles(folder: string, lookUp: LookUp, reader: PythonReader): Promise<DiscoveredFiles> {
  const sources = await sourcesOf(folder);
  const found: DeclaredEndpoint[] = [];
  const errors: FileError[] = [...sources.errors];
  const warnings: string[] = [];
  let pythonVersion: string | null = null;
  let pythonRoots: readonly string[] = [];
  const needed: NeededModule[] = [];
  if (sources.python.length > 0) {
    const read = await readPythonFiles(
      folder,
      sources.python.map(({ path }) => path),
      lookUp,
      reader,
    );
    errors.push(...read.errors);
    warnings.push(...read.warnings);
    const headers = new ScriptHeaders(folder);
    for (const endpoint of read.endpoints) {
      try {
        found.push(await headers.applied(endpoint));
      } catch (thrown) {
        errors.push(errorOf(endpoint.file, thrown));
      }
    }
    warnings.push(...headers.warnings);
    pythonVersion = read.version;
    pythonRoots = read.roots;
    needed.push(...read.needed);
  }
  for (const file of sources.node) {
    try {
      const read = await readNodeFile(file, folder, lookUp);
      found.push(...read.endpoints);
      warnings.push(...read.warnings);
    } catch (thrown) {
      errors.push(errorOf(file.path, thrown));
    }
  }
  const ofNode = found.filter(({ language }) => language === 'node');
  const loaded = new Set(
    ofNode.flatMap(({ file, app, settings }) => [file, ...(app?.file == null || settings.build !== undefined ? [] : [app.file])]),
  );
  const imports = await readNodeImports(folder, [...loaded]);
  const commands = found.filter(({ settings }) => settings.image === undefined).map(({ settings }) => settings.command);
  const byScripts = (await neededByScripts(folder, commands)).filter(({ name }) => !imports.needed.some((each) => each.name === name));
  // The file of an application is not that of its endpoint.
  for (const { file, error } of imports.errors)
    for (const each of ofNode) if (each.file === file || each.app?.file === file) errors.push({ file: each.file, error });
  for (const check of [checkEndpoint, nameCheck()]) {
    for (const endpoint of found) {
      try {
        check(endpoint);
      } catch (thrown) {
        errors.push(errorOf(endpoint.file, thrown));
      }
    }
  }
  const broken = new Map([...errors].reverse().map((each) => [each.file, each] as const));
  const endpoints = found.filter(({ file }) => !broken.has(file));
  const python = endpoints.some(({ language }) => language === 'python') ? pythonVersion : null;
  return {
    application: {
      folder,
      endpoints,
      pythonVersion: python,
      pythonRoots,
      needed: [...needed, ...imports.needed, ...byScripts],
      rules: imports.rules,
      warnings,
    },
    errors: errors.filter((each) => broken.get(each.file) === each),
  };
}

function checkEndpoint({ name, place, functions, settings, app }: DeclaredEndpoint): void {
  const routed = functions.filter(({ route }) => route !== null);
  const [first, second] = functions;
  const program = app !== null ? 'serves an app' : settings.command.length > 0 ? 'runs a command' : null;
  if (first === undefined) {
    if (settings.image === undefined && program === null)
      throw invalid(
        `${place}: endpoint ${name} has no function and no route; decorate a function with it, or give it an app, a command, or an image that serves by itself`,
      );
    mustFindSystemPackages(name, place, settings);
    return;
  }
  if (program !== null)
    throw invalid(
      `${first.place}: endpoint ${name} ${program}, which handles every path itself, and cannot have functions (${first.name})`,
    );
  mustFindSystemPackages(name, place, settings);
  if (settings.loadBalanced && routed.length === 0)
    throw invalid(`${first.place}: endpoint ${name} is load-balanced, and ${first.name} has no route; bind it with get, post and so on`);
  if (routed.length > 0 && routed.length < functions.length)
    throw invalid(
      `${place}: endpoint ${name} has routes and a function without one (${functions.find(({ route }) => route === null)?.place ?? ''})`,
    );
  if (routed.length === 0 && second !== undefined)
    throw invalid(
      `${second.place}: endpoint ${name} already serves ${first.name} (${first.place}); a queue-based endpoint must have exactly one function`,
    );
  const bound = new Map<string, DeclaredFunction>();
  for (const each of routed) {
    const key = `${each.route?.method ?? ''} ${sameRoute(each.route?.path ?? '')}`;
    const other = bound.get(key);
    if (other !== undefined)
      throw invalid(
        `${each.place}: endpoint ${name}: ${each.route?.method ?? ''} ${each.route?.path ?? ''} is already bound to ${other.name} (${other.place})`,
      );
    bound.set(key, each);
  }
}

function mustFindSystemPackages(name: string, place: string, { systemDependencies, image }: DeclaredEndpoint['settings']): void {
  if (systemDependencies.length > 0 && image === undefined)
    throw invalid(
      `${place}: endpoint ${name}: ${systemDependencies.join(', ')} are system packages, which require a container image that has them; set image=`,
    );
}

/** Endpoint names are unique, and so are function names. */
function nameCheck(): (endpoint: DeclaredEndpoint) => void {
  const names = new Map<string, DeclaredEndpoint>();
  const functions = new Map<string, DeclaredFunction>();
  return (endpoint) => {
    const other = names.get(endpoint.name);
    if (other !== undefined)
      throw invalid(
        `the endpoint ${endpoint.name} is declared twice: at ${other.place} and at ${endpoint.place}; names of endpoints must be unique`,
      );
    names.set(endpoint.name, endpoint);
    for (const each of endpoint.functions) {
      const known = functions.get(each.name);
      // One function may serve several routes.
      if (known !== undefined && known.place !== each.place)
        throw invalid(
          `the function ${each.name} is defined twice: at ${known.place} and at ${each.place}; names must be unique in an application`,
        );
      functions.set(each.name, each);
    }
  };
}

function invalid(message: string): CapstanError {
  return new ToolError('INVALID_MANIFEST', message, 'Correct the declaration.');
}
