/** Generates the manifest of a declared application: `resources` and `routes`. What else a build knows is in `build.json` (build-facts.ts). */
import { defaultBaseImage } from '../../lib/base-images.ts';
import type { DeclaredEndpoint } from '../discovery/declared.ts';
import { resourceOf } from '../../sdk/typescript/settings.ts';

export interface ManifestFacts {
  /** Packages left out because the base image has them, by endpoint. */
  readonly packages: ReadonlyMap<string, readonly string[]>;
  /** Python version that compiled packages of the build require; empty for any. */
  readonly python: string;
  /** The handler file of each endpoint. */
  readonly handlers: ReadonlyMap<string, string>;
}

export function manifestOf(endpoints: readonly DeclaredEndpoint[], facts: ManifestFacts): Record<string, unknown> {
  const balanced = endpoints.filter(({ functions }) => functions.some(({ route }) => route !== null));
  return {
    resources: Object.fromEntries(endpoints.map((endpoint) => [endpoint.name, resourceFor(endpoint, facts)])),
    routes: Object.fromEntries(balanced.map(({ name, functions }) => [name, routesOf(functions)])),
  };
}

function resourceFor(endpoint: DeclaredEndpoint, { packages, python, handlers }: ManifestFacts): Record<string, unknown> {
  const left = packages.get(endpoint.name) ?? [];
  const handler = handlers.get(endpoint.name);
  const rows = endpoint.functions.filter(({ name }, index) => endpoint.functions.findIndex((other) => other.name === name) === index);
  // A worker with its own program names its image itself, if it needs one.
  const image = rows.length === 0 ? null : defaultBaseImage(endpoint.language, endpoint.settings.gpu.length > 0);
  return {
    ...(image === null ? {} : { imageName: image.name }),
    ...resourceOf(endpoint.settings),
    ...(endpoint.app === null || handler === undefined ? {} : { command: serveCommand(endpoint, handler) }),
    ...(endpoint.functions.some(({ route }) => route !== null) ? { is_load_balanced: true } : {}),
    ...(rows.length === 0
      ? {}
      : {
          functions: rows.map(({ name, isAsync, isClass, route }) => ({
            name,
            module: endpoint.file,
            is_async: isAsync,
            is_class: isClass,
            ...(route === null ? {} : { http_method: route.method, http_path: route.path }),
          })),
        }),
    ...(handler === undefined || endpoint.app !== null ? {} : { handler }),
    ...(left.length === 0 ? {} : { packages: left }),
    ...(python === '' || endpoint.language !== 'python' ? {} : { python }),
  };
}

/** A process runs in the build's folder, and a container in its image's. */
function serveCommand({ language, settings }: DeclaredEndpoint, file: string): string[] {
  return [language === 'python' ? 'python3' : 'node', settings.image === undefined ? file : `$CAPSTAN_BUILD/${file}`];
}

function routesOf(functions: DeclaredEndpoint['functions']): Record<string, string> {
  return Object.fromEntries(functions.flatMap(({ name, route }) => (route === null ? [] : [[`${route.method} ${route.path}`, name]])));
}
