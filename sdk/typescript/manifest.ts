/** Maps functions to endpoints: the manifest of the build that this worker runs. */
import { DispatchError } from './errors.ts';
import { startFolder } from './environment.ts';
import type { RouteMethod } from './routes.ts';

const NAME = 'tool_manifest.json';

interface ManifestDocument {
  readonly function_registry?: Readonly<Record<string, unknown>>;
  readonly resources?: Readonly<Record<string, { readonly functions?: readonly { readonly name?: unknown }[] }>>;
  readonly routes?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

let own: ManifestDocument | undefined;

/** Returns the endpoint of a function. @throws DispatchError */
export async function endpointOf(functionName: string): Promise<string> {
  const manifest = await ownManifest();
  const registered = manifest.function_registry?.[functionName];
  if (typeof registered === 'string') return registered;
  for (const [name, { functions = [] }] of Object.entries(manifest.resources ?? {})) {
    if (functions.some((row) => row.name === functionName)) return name;
  }
  throw new DispatchError(`no endpoint of this build has the function ${functionName}`);
}

/** Returns method and path that a load-balanced endpoint bound to a function. @throws DispatchError */
export async function routeOf(
  endpointName: string,
  functionName: string,
): Promise<{ readonly method: RouteMethod; readonly path: string }> {
  const { routes } = await ownManifest();
  for (const [route, name] of Object.entries(routes?.[endpointName] ?? {})) {
    const [method, path] = route.split(' ');
    if (name === functionName && method !== undefined && path !== undefined) return { method: method as RouteMethod, path };
  }
  throw new DispatchError(`the endpoint ${endpointName} has no route for the function ${functionName}`);
}

/** Reads the manifest once. @throws DispatchError when there is none. */
async function ownManifest(): Promise<ManifestDocument> {
  if (own !== undefined) return own;
  try {
    own = JSON.parse(await readText(`${startFolder}/${NAME}`)) as ManifestDocument;
    return own;
  } catch (cause) {
    throw new DispatchError(`cannot read the build's ${NAME}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

interface Files {
  readonly promises: { readFile(path: string, encoding: 'utf8'): Promise<string> };
}

/** Only workers execute this. An import, even at run time, would make the package unusable in browser bundles. */
async function readText(path: string): Promise<string> {
  const { process } = globalThis as { readonly process?: { readonly getBuiltinModule?: (name: string) => Files | undefined } };
  const files = process?.getBuiltinModule?.('node:fs');
  if (files === undefined) throw new Error('reading files requires Node 20.16 or newer');
  return files.promises.readFile(path, 'utf8');
}
