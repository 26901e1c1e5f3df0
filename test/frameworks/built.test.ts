/** Frameworks of Node that build a server of their own, with the real packages, in both forms of the address. */
import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { missingRegistry } from '../support/registries.ts';
import { Stack } from '../support/stack.ts';
import { mustServe, type Abilities } from './both-forms.ts';

const apps = join(import.meta.dirname, 'apps');

interface Case {
  readonly app: string;
  readonly manifest: object;
  readonly abilities?: Abilities;
}

/** Their servers hold what they need: the packages are those of development. */
const CASES: Readonly<Record<string, Case>> = {
  'SvelteKit, by adapter-node': {
    app: 'sveltekit',
    abilities: { checksOrigin: true },
    manifest: {
      type: 'module',
      scripts: { build: 'vite build' },
      devDependencies: {
        '@sveltejs/adapter-node': '^5',
        '@sveltejs/kit': '^2',
        '@sveltejs/vite-plugin-svelte': '^6',
        svelte: '^5',
        vite: '^7',
      },
    },
  },
  'Next.js, as a standalone server': {
    app: 'nextjs',
    manifest: {
      scripts: {
        build: 'NEXT_TELEMETRY_DISABLED=1 next build && cp -r public .next/standalone/ && cp -r .next/static .next/standalone/.next/',
      },
      devDependencies: { next: '^16', react: '^19', 'react-dom': '^19' },
    },
  },
};

let stack: Stack;
test.before(async () => {
  if (missingRegistry.npm === null) stack = await Stack.start({ CAPSTAN_LB_HOLD_MS: '60000' });
});
test.after.always(async () => stack?.close());

for (const [title, { app, manifest, abilities = {} }] of Object.entries(CASES)) {
  if (missingRegistry.npm !== null) {
    test.skip(`${title} (${missingRegistry.npm})`, (t) => t.pass());
    continue;
  }
  test.serial(title, async (t) => {
    t.timeout(240_000);
    const folder = join(stack.scratch, app);
    await cp(join(apps, app), folder, { recursive: true });
    await writeFile(join(folder, 'package.json'), JSON.stringify({ name: app, private: true, ...manifest }));
    const [row] = JSON.parse(await stack.tool('deploy', folder, '--env', app, '--json')) as { id: string }[];
    await mustServe(t, stack, row?.id ?? '', abilities);
  });
}
