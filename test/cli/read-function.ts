/** One function of a folder, as a deployment reads it. */
import { readFunctions, type ReadFunction } from '../../compiler/application/functions.ts';
import { CallStyle } from '../../proto/gen/capstan/v1/nodes.ts';
import { readManifest } from '../../compiler/artifact/manifest.ts';

export async function readFunction(folder: string, module: string, name = 'f'): Promise<ReadFunction> {
  const manifest = { resources: { e: { functions: [{ name, module }] } } };
  const [endpoint] = readManifest(JSON.stringify(manifest), 'tool_manifest.json').endpoints;
  const [read] = endpoint === undefined ? [] : await readFunctions(folder, endpoint);
  if (read === undefined) throw new Error('nothing was read');
  return read;
}

/**
 * `POSITIONAL a b?`: the style and the parameters whose values are keys, those that need not be given with a question
 * mark.
 */
export function inShort({ style, parameters: read }: ReadFunction): string {
  const parameters = style === CallStyle.WHOLE ? read.filter(({ takesBody }) => takesBody !== true) : read;
  return [style.replace('CALL_STYLE_', ''), ...parameters.map(({ name, required }) => (required ? name : `${name}?`))].join(' ');
}
