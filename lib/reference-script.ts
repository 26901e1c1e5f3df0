/**
 * The script of the pages that show an OpenAPI document. It has four megabytes and is read at the first request for it,
 * because many processes never serve it; it is sent compressed. The build of the console compresses it best, which takes
 * ten seconds; a process compresses it in a fraction of one, to a tenth more.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

import fastify from 'fastify';

/** Where the build of the console puts the compressed script, by the hash of the script. */
const BUILT = fileURLToPath(new URL('../console/dist/reference/', import.meta.url));
const QUICK = 5;

const SOURCE_PATH = '/docs/js/scalar.js';

/** Settings of every reference page: no links to services of the page's vendor. */
export const REFERENCE_SETTINGS = {
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  showDeveloperTools: 'never',
  agent: { disabled: true },
  mcp: { disabled: true },
  defaultOpenAllTags: true,
} as const;

export interface SentScript {
  readonly bytes: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

interface Script {
  readonly bytes: Buffer;
  readonly hash: string;
  readonly encoded: Map<string, Promise<Buffer>>;
}

let script: Promise<Script> | undefined;

/** `accepted`: the header `accept-encoding` of the request. */
export async function referenceScript(accepted: string | string[] | undefined): Promise<SentScript> {
  const { bytes, hash, encoded } = await (script ??= readScript());
  const headers = {
    'content-type': 'application/javascript; charset=utf-8',
    'cache-control': 'public, max-age=3600',
    etag: `"${hash}"`,
    vary: 'Accept-Encoding',
  };
  const named = new Set(
    String(accepted ?? '')
      .split(',')
      .map((each) => each.split(';', 1)[0]?.trim()),
  );
  const encoding = ['br', 'gzip'].find((each) => named.has(each));
  if (encoding === undefined) return { bytes, headers };
  const made = encoded.get(encoding) ?? (encoding === 'br' ? brotli(bytes, hash) : promisify(gzip)(bytes, { level: 9 }));
  encoded.set(encoding, made);
  return { bytes: await made, headers: { ...headers, 'content-encoding': encoding } };
}

/** The script of the package, and the name of its compressed form. */
async function readScript(): Promise<Script> {
  const { default: scalar } = await import('@scalar/fastify-api-reference');
  const page = fastify();
  await page.register(scalar, { routePrefix: '/docs', configuration: { content: {} } });
  const { rawPayload: bytes } = await page.inject({ method: 'GET', url: SOURCE_PATH });
  await page.close();
  return { bytes, hash: createHash('sha256').update(bytes).digest('hex'), encoded: new Map() };
}

async function brotli(bytes: Buffer, hash: string): Promise<Buffer> {
  try {
    return await readFile(`${BUILT}${hash}.js.br`);
  } catch {
    // The console is not built, or was built with another version of the script.
    const params = { [constants.BROTLI_PARAM_QUALITY]: QUICK, [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS };
    return promisify(brotliCompress)(bytes, { params });
  }
}
