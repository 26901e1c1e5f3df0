/** Converts the functions of a manifest to the form that the scheduler and the agents receive. */
import { CapstanError } from '../../lib/errors.ts';
import { readMethods, type Method } from '../signatures/class-methods.ts';
import { commentOf } from '../signatures/documentation.ts';
import { findExport, parseModule, type Found } from '../signatures/exports.ts';
import type { ManifestEndpoint, ManifestFunction } from '../artifact/manifest.ts';
import { isPython, readModule } from '../signatures/modules.ts';
import { described, readParameters, UNREAD, type Reading } from '../signatures/parameters.ts';
import { findInPython, type FoundInPython } from '../signatures/python.ts';

export interface ReadFunction extends Reading {
  readonly name: string;
  /** File in the folder. */
  readonly module: string;
  /** Of a class: its public methods, as far as the sources show them. */
  readonly methods?: readonly Method[];
}

type Kind = ManifestEndpoint['kind'];

/**
 * Finds and reads every function of an endpoint.
 * @throws CapstanError INVALID_MANIFEST, with the place in the manifest or in the source.
 */
export async function readFunctions(folder: string, endpoint: ManifestEndpoint): Promise<ReadFunction[]> {
  const read: ReadFunction[] = [];
  for (const [index, each] of endpoint.functions.entries())
    read.push(await readFunction(folder, each, endpoint.kind, `resources.${endpoint.name}.functions[${index}]`));
  return read;
}

async function readFunction(
  folder: string,
  { name, module: moduleName }: ManifestFunction,
  kind: Kind,
  where: string,
): Promise<ReadFunction> {
  const file = await readModule(folder, moduleName, `${where}.module`);
  if (isPython(file)) {
    const found = await findInPython(folder, file, name, kind);
    return {
      name,
      module: file.path,
      ...(found.kind === 'read' ? found.reading : await knownOf(found, { name, file: file.path, kind, where })),
    };
  }
  const module = parseModule(file, folder);
  const found = await findExport(module, name);
  const reading =
    found.kind === 'function'
      ? await readParameters(found.node, found.module)
      : await knownOf(found, { name, file: module.path, kind, where });
  return { name, module: module.path, ...reading };
}

/** The function that a manifest names, and its place in the manifest. */
interface Wanted {
  readonly name: string;
  readonly file: string;
  readonly kind: Kind;
  readonly where: string;
}

/** Returns what is known of a class, or of a function that could not be read; throws when it is neither. */
async function knownOf(
  found: Exclude<Found | FoundInPython, { kind: 'function' | 'read' }>,
  { name, file, kind, where }: Wanted,
): Promise<Reading & Pick<ReadFunction, 'methods'>> {
  switch (found.kind) {
    case 'unclear':
      return UNREAD;
    case 'class':
      if (kind === 'queue' && 'methods' in found) return { ...described(UNREAD, found.description), methods: found.methods };
      if (kind === 'queue' && 'node' in found) {
        const methods = await readMethods(found.node, found.module);
        return { ...described(UNREAD, commentOf(found.node, found.module)), methods };
      }
      throw invalid(where, `${found.at}: ${name} is a class, and a route must have a function`);
    case 'missing': {
      if (found.hidden !== null) throw invalid(where, `${found.hidden}: the function ${name} is not exported`);
      const has = found.names.length === 0 ? 'it exports none' : `it exports ${found.names.join(', ')}`;
      throw invalid(where, `${file}:1: no function ${name} (${has})`);
    }
  }
}

function invalid(where: string, message: string): CapstanError {
  return new CapstanError('INVALID_MANIFEST', message, { field: `${where}.name` });
}
