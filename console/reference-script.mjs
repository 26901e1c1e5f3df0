/**
 * Compresses the script of the pages that show OpenAPI documents (lib/reference-script.ts) as well as it can be: under a
 * megabyte. That takes ten seconds, so the result of an earlier build is kept while the script is the same.
 */
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants } from 'node:zlib';

/** `earlier`, `folder`: of the result of the last build, and of this one. Makes nothing where the package is not installed. */
export async function referenceScript(earlier, folder) {
  const bytes = await scriptOf();
  if (bytes === undefined) return;
  const name = `${createHash('sha256').update(bytes).digest('hex')}.js.br`;
  mkdirSync(folder, { recursive: true });
  if (existsSync(join(earlier, name))) {
    copyFileSync(join(earlier, name), join(folder, name));
    return;
  }
  const params = { [constants.BROTLI_PARAM_QUALITY]: 10, [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS };
  writeFileSync(join(folder, name), await promisify(brotliCompress)(bytes, { params }));
}

/** The script, as the gateway serves it; undefined where its package is not installed. */
async function scriptOf() {
  let packages;
  try {
    packages = await Promise.all([import('fastify'), import('@scalar/fastify-api-reference')]);
  } catch {
    return undefined;
  }
  const [{ default: fastify }, { default: scalar }] = packages;
  const page = fastify();
  await page.register(scalar, { routePrefix: '/docs', configuration: { content: {} } });
  const { rawPayload } = await page.inject({ method: 'GET', url: '/docs/js/scalar.js' });
  await page.close();
  return rawPayload;
}
