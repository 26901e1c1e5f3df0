/** Frameworks of Node in the versions that people have, with the real packages, in both forms of the address. */
import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { missingRegistry } from '../support/registries.ts';
import { Stack } from '../support/stack.ts';
import { mustServe, type Abilities } from './both-forms.ts';

const apps = join(import.meta.dirname, 'apps');

interface Case {
  readonly app: string;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly manifest?: object;
  readonly abilities?: Abilities;
}

const CASES: Readonly<Record<string, Case>> = {
  'Express 4': { app: 'express', dependencies: { express: '^4', multer: '^2' } },
  'Express 5': { app: 'express', dependencies: { express: '^5', multer: '^2' } },
  Fastify: {
    app: 'fastify',
    dependencies: {
      fastify: '^5',
      ...{ '@fastify/cookie': '^11', '@fastify/multipart': '^9', '@fastify/static': '^8', '@fastify/websocket': '^11' },
    },
    abilities: { webSockets: true },
  },
  Hono: { app: 'hono', dependencies: { hono: '^4', '@hono/node-server': '^1' } },
  Koa: {
    app: 'koa',
    dependencies: { koa: '^3', '@koa/router': '^14', '@koa/multer': '^4', multer: '^2', 'koa-mount': '^4', 'koa-static': '^5' },
  },
  'NestJS, built by tsc': {
    app: 'nestjs',
    dependencies: {
      ...{ '@nestjs/common': '^11', '@nestjs/core': '^11', '@nestjs/platform-express': '^11' },
      ...{ express: '^5', 'reflect-metadata': '^0.2', rxjs: '^7' },
    },
    manifest: {
      scripts: { build: 'tsc' },
      devDependencies: { typescript: '~5.9', '@types/node': '^24', '@types/express': '^5', '@types/multer': '^2' },
    },
  },
};

let stack: Stack;
test.before(async () => {
  if (missingRegistry.npm === null) stack = await Stack.start({ CAPSTAN_LB_HOLD_MS: '60000' });
});
test.after.always(async () => stack?.close());

for (const [title, { app, dependencies, manifest = {}, abilities = {} }] of Object.entries(CASES)) {
  if (missingRegistry.npm !== null) {
    test.skip(`${title} (${missingRegistry.npm})`, (t) => t.pass());
    continue;
  }
  test.serial(title, async (t) => {
    t.timeout(120_000);
    const name = title.replaceAll(/\W+/g, '-').toLowerCase();
    const folder = join(stack.scratch, name);
    await cp(join(apps, app), folder, { recursive: true });
    await writeFile(join(folder, 'package.json'), JSON.stringify({ name, private: true, type: 'module', ...manifest, dependencies }));
    // Their endpoints have the same names, so each has an environment of its own.
    const [row] = JSON.parse(await stack.tool('deploy', folder, '--env', name, '--json')) as { id: string }[];
    await mustServe(t, stack, row?.id ?? '', abilities);
  });
}
