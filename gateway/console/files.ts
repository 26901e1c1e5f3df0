/**
 * The files of the console, built by `npm run console`. They are few and small: all are in memory after the first request, so that a
 * path names an entry of a table and nothing on the disk.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { CapstanError } from '../../lib/errors.ts';
import { errnoOf } from '../../lib/to-error.ts';
import { sendFailure } from '../http/problem.ts';

export const BUILT = fileURLToPath(new URL('../../console/dist', import.meta.url));
const INDEX = 'index.html';
/** Files below it have a hash of their content in their names. */
const HASHED = 'assets/';
/** Stands in the built page where each response has a number of its own. */
const NONCE = 'CSP_NONCE';
const NONCE_BYTES = 16;

const HTML_TYPE = 'text/html; charset=utf-8';
const TYPES: Readonly<Record<string, string>> = {
  '.html': HTML_TYPE,
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** How the build compresses files: the encoding and the suffix of the file, best first. */
const ENCODINGS = [
  ['br', '.br'],
  ['gzip', '.gz'],
] as const;

const SECURITY_HEADERS = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};

const NOT_BUILT = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>The console is being built</title>
<h1>The console is being built</h1>
<p>This page shows it as soon as it is there, in about a minute. <code>npm start</code> and <code>capstan up</code> on a
terminal build the console of a checkout; by hand: <code>npm run console</code>.</p>
</html>
`;

interface BuiltFile {
  readonly type: string;
  readonly etag: string;
  readonly bytes: Buffer;
  /** Compressed, by encoding. */
  readonly encoded: ReadonlyMap<string, Buffer>;
}

/** `folder`: where the build is. */
export function fileRoutes(app: FastifyInstance, folder = BUILT): void {
  let built: Promise<ReadonlyMap<string, BuiltFile>> | undefined;

  /** Read again until something is built. */
  async function readBuilt(): Promise<ReadonlyMap<string, BuiltFile>> {
    built ??= readFiles(folder);
    try {
      const files = await built;
      if (files.size === 0) built = undefined;
      return files;
    } catch (thrown) {
      built = undefined;
      throw thrown;
    }
  }

  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const path = request.url.split('?', 1)[0] ?? '';
    reply.headers(SECURITY_HEADERS);
    if (path === '/console') {
      // Relative: only the browser knows the path under which a proxy serves the gateway.
      reply.code(302).header('location', 'console/').send();
      return;
    }
    const name = path.slice('/console/'.length);
    if (name === 'api' || name.startsWith('api/')) throw new CapstanError('NOT_FOUND', 'no such route; see /docs');
    const files = await readBuilt();
    const file = files.get(name);
    if (file !== undefined && name !== INDEX) {
      sendFile(request, reply, file, name.startsWith(HASHED));
      return;
    }
    if (name.startsWith(HASHED)) throw new CapstanError('NOT_FOUND', 'path: no file of the console has this name', { field: 'path' });
    sendPage(reply, files.get(INDEX), name.split('/').length - 1);
  }

  for (const url of ['/console', '/console/*']) {
    app.route({
      method: ['GET', 'HEAD'],
      url,
      schema: { hide: true },
      config: { cacheable: true },
      handler(request, reply) {
        answer(request, reply).catch((thrown: unknown) => sendFailure(reply, thrown));
      },
    });
  }
}

/** `depth`: folders of the page's path below `/console/`. */
function sendPage(reply: FastifyReply, index: BuiltFile | undefined, depth: number): void {
  reply.header('content-type', HTML_TYPE).header('cache-control', 'no-store');
  if (index === undefined) {
    reply.code(503).headers({
      'retry-after': '10',
      refresh: '3',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    });
    reply.send(NOT_BUILT);
    return;
  }
  const nonce = randomBytes(NONCE_BYTES).toString('base64');
  const base = depth === 0 ? './' : '../'.repeat(depth);
  reply.header('content-security-policy', policy(nonce));
  reply.send(index.bytes.toString('utf8').replaceAll(NONCE, nonce).replace('<base href="/console/"', `<base href="${base}"`));
}

/**
 * Scripts are admitted by the number of the response and not by the origin, from which endpoints in the path form serve scripts, too.
 */
function policy(nonce: string): string {
  return [
    "default-src 'none'",
    `script-src 'nonce-${nonce}' 'strict-dynamic'`,
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'self'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
}

function sendFile({ headers }: FastifyRequest, reply: FastifyReply, file: BuiltFile, isHashed: boolean): void {
  reply.header('cache-control', isHashed ? 'public, max-age=31536000, immutable' : 'no-cache');
  reply.header('etag', file.etag).header('vary', 'Accept-Encoding');
  if (headers['if-none-match']?.includes(file.etag) === true) {
    reply.code(304).send();
    return;
  }
  const accepted = new Set((headers['accept-encoding'] ?? '').split(',').map((each) => each.split(';', 1)[0]?.trim()));
  const encoding = ENCODINGS.find(([name]) => accepted.has(name) && file.encoded.has(name))?.[0];
  if (encoding !== undefined) reply.header('content-encoding', encoding);
  reply.header('content-type', file.type).send(encoding === undefined ? file.bytes : file.encoded.get(encoding));
}

/** Reads every file of a type that browsers may have; none if nothing is built. */
async function readFiles(folder: string): Promise<ReadonlyMap<string, BuiltFile>> {
  let names: string[];
  try {
    names = await readdir(folder, { recursive: true });
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return new Map();
    throw thrown;
  }
  const present = new Set(names);
  const files = new Map<string, BuiltFile>();
  for (const name of names) {
    const type = TYPES[extname(name)];
    if (type === undefined) continue;
    const bytes = await readFile(join(folder, name));
    const encoded = new Map<string, Buffer>();
    for (const [encoding, suffix] of ENCODINGS)
      if (present.has(name + suffix)) encoded.set(encoding, await readFile(join(folder, name + suffix)));
    files.set(name, { type, bytes, encoded, etag: `"${createHash('sha256').update(bytes).digest('base64url')}"` });
  }
  return files;
}
