/** The TypeScript SDK as it is published: JavaScript with declarations, without dependencies. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';

import { folderOf } from '../support/folder.ts';

/** As much of Node as the snippets use. */
const NODE_TYPES = `
  declare const process: { readonly env: Record<string, string | undefined> };
  declare module 'node:fs' { export function readFileSync(path: string, encoding: 'utf8'): string; }
`;

/** Answers every call with what any of them can read. */
async function serviceOf(t: ExecutionContext): Promise<{ readonly baseUrl: string }> {
  const answer = { id: 'j', status: 'COMPLETED', output: [1], stream: [{ output: 1 }], jobs: {}, workers: {}, removed: 0 };
  const server = createServer((request, response) => {
    request.resume();
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

const root = join(import.meta.dirname, '../..');
const run = promisify(execFile);

test('the built package runs, and a strict application compiles against its declarations', async (t) => {
  const folder = await folderOf(t);
  const installed = join(folder, 'node_modules/@capstan/sdk');
  await mkdir(join(folder, 'node_modules/@capstan'), { recursive: true });
  await run(process.execPath, [join(root, 'sdk/typescript/build.ts'), installed]);
  // So that it fits into bundles for browsers.
  for (const name of (await readdir(installed)).filter((each) => each.endsWith('.js')))
    t.notRegex(await readFile(join(installed, name), 'utf8'), /(from|import\()\s*['"](?!\.\/)/, name);
  await symlink(join(root, 'node_modules/zod'), join(folder, 'node_modules/zod'));
  const source = `
    import { Endpoint, endpoint, RemoteError, type EndpointClient } from '@capstan/sdk';
    import { z } from 'zod';
    export const double = endpoint({ name: 'double', gpu: 'ADA_24' }, (n: number): number => n * 2);
    export const trim = endpoint({ name: 'trim', schema: z.object({ text: z.string() }) }, ({ text }) => text.trim());
    const api = new Endpoint({ name: 'api', workers: [0, 2] });
    export const health = api.get('/health', () => ({ status: 'ok' }));
    const handle: EndpointClient<{ n: number }, number[]> = new Endpoint<{ n: number }, number[]>('id', { apiKey: 'k' });
    export async function use(): Promise<number> {
      for await (const chunk of (await handle.run({ n: 1 })).stream()) if (chunk > 1) return chunk;
      // @ts-expect-error the input has its type
      await handle.runSync({ m: 1 });
      return (await handle.runSync({ n: 1 })).length;
    }
    console.log(JSON.stringify([double(2), trim({ text: ' a ' }), health().status, RemoteError.name, api.resource()]));
  `;
  await writeFile(join(folder, 'package.json'), '{"type": "module"}');
  await writeFile(join(folder, 'app.ts'), source);
  const compilerOptions = {
    module: 'nodenext',
    target: 'es2024',
    strict: true,
    exactOptionalPropertyTypes: true,
    types: [],
    lib: ['es2024', 'dom'],
  };
  // Every snippet of the documentation, as it is printed.
  const page = await readFile(join(root, 'docs/sdk-typescript.md'), 'utf8');
  const snippets = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = ''], index) => ({ name: `snippet-${index}`, code }));
  t.true(snippets.length >= 5);
  for (const { name, code } of snippets) await writeFile(join(folder, `${name}.ts`), code);
  await writeFile(join(folder, 'node.d.ts'), NODE_TYPES);
  const files = ['app.ts', 'node.d.ts', ...snippets.map(({ name }) => `${name}.ts`)];
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
  await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder]);
  const { stdout } = await run(process.execPath, [join(folder, 'app.js')], { cwd: folder });
  const [doubled, trimmed, status, name, resource] = JSON.parse(stdout) as unknown[];
  t.deepEqual([doubled, trimmed, status, name], [4, 'a', 'ok', 'RemoteError']);
  t.like(resource, { is_load_balanced: true, workersMax: 2 });

  const { baseUrl } = await serviceOf(t);
  for (const { name } of snippets) {
    const file = join(folder, `${name}.js`);
    await writeFile(file, (await readFile(file, 'utf8')).replace('http://127.0.0.1:8080', baseUrl));
    await t.notThrowsAsync(run(process.execPath, [file], { env: { SERVICE_API_KEY: 'key' } }), name);
  }
});
