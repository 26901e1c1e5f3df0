/** How the gateway serves the built console (gateway/console/files.ts). */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import fastify from 'fastify';

import { fileRoutes } from '../../gateway/console/files.ts';
import { folderOf } from '../support/folder.ts';

const PAGE = '<html><base href="/console/" /><script type="module" src="./assets/a-1.js" nonce="CSP_NONCE"></script></html>';

async function open(t: ExecutionContext) {
  const folder = join(await folderOf(t), 'dist');
  const app = fastify({ routerOptions: { ignoreTrailingSlash: true }, exposeHeadRoutes: false });
  fileRoutes(app, folder);
  t.teardown(() => app.close());
  const get = (url: string, headers: Record<string, string> = {}, method: 'GET' | 'HEAD' = 'GET') => app.inject({ method, url, headers });
  const build = async (): Promise<void> => {
    await mkdir(join(folder, 'assets'), { recursive: true });
    const files = {
      'index.html': PAGE,
      'assets/a-1.js': 'script',
      'assets/a-1.js.br': 'br',
      'assets/a-1.js.gz': 'gz',
      'icon.svg': '<svg/>',
      '.stamp': 's',
      'manifest.json': '{}',
    };
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  };
  return { get, build };
}

test('before it is built the page says how, and it is served without a restart once it is', async (t) => {
  const { get, build } = await open(t);
  const before = await get('/console/');
  t.is(before.statusCode, 503);
  t.true(before.body.includes('npm run console'));
  await build();
  t.is((await get('/console/')).statusCode, 200);
});

test('every page of the console is its one document, with a base, a policy and a number of its own', async (t) => {
  const { get, build } = await open(t);
  await build();
  const redirect = await get('/console');
  t.deepEqual([redirect.statusCode, redirect.headers.location], [302, 'console/']);
  for (const [path, base] of [
    ['/console/', './'],
    ['/console/?x=1', './'],
    ['/console/keys', './'],
    ['/console/endpoints/abc', '../'],
    ['/console/endpoints/abc/jobs/1', '../../../'],
    ['/console/index.html', './'],
    ['/console/assets.js', './'],
  ] as const) {
    const { statusCode, headers, body } = await get(path);
    t.is(statusCode, 200, path);
    t.true(body.includes(`<base href="${base}"`), `${path} ${body}`);
    const nonce = /nonce="([^"]+)"/.exec(body)?.[1] ?? '';
    t.true(String(headers['content-security-policy']).includes(`script-src 'nonce-${nonce}' 'strict-dynamic'; style-src 'self'`));
    t.false(body.includes('CSP_NONCE'));
    t.like(headers, {
      'cache-control': 'no-store',
      'x-frame-options': 'DENY',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
    });
    t.not(nonce, /nonce="([^"]+)"/.exec((await get(path)).body)?.[1]);
  }
});

test('files with a hash in their names are kept for ever, compressed as the browser likes, and nothing else is served', async (t) => {
  const { get, build } = await open(t);
  await build();
  const plain = await get('/console/assets/a-1.js');
  t.is(plain.body, 'script');
  t.like(plain.headers, { 'cache-control': 'public, max-age=31536000, immutable', vary: 'Accept-Encoding' });
  t.is((await get('/console/assets/a-1.js', { 'accept-encoding': 'gzip, br' })).body, 'br');
  t.is((await get('/console/assets/a-1.js', { 'accept-encoding': 'gzip' })).headers['content-encoding'], 'gzip');
  t.is((await get('/console/assets/a-1.js', { 'if-none-match': String(plain.headers.etag) })).statusCode, 304);
  t.is((await get('/console/assets/a-1.js', {}, 'HEAD')).body, '');
  t.is((await get('/console/icon.svg')).headers['cache-control'], 'no-cache');
  for (const path of ['/console/assets/none.js', '/console/assets/a-1.js.br', '/console/api/none', '/console/api'])
    t.not((await get(path)).statusCode, 200, path);
  // Whatever is no file of the build is a path of the console's own: its document, never a file of the disk.
  for (const path of [
    '/console/.stamp',
    '/console/assets/../.stamp%2f',
    '/console/manifest.json',
    '/console/..%2f..%2fpackage.json',
    '/console/%2e%2e/package.json',
    '/console//etc/passwd',
  ]) {
    const { statusCode, body } = await get(path);
    t.true(statusCode !== 200 || body.includes('<base href='), `${path} ${statusCode} ${body}`);
  }
});
