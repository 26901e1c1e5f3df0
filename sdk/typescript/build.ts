/** Builds the package for publishing: `node sdk/typescript/build.ts [folder]`, by default into `dist`. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';

const source = import.meta.dirname;
const target = resolve(process.argv[2] ?? join(source, 'dist'));

rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc');
execFileSync(process.execPath, [compiler, '-p', join(source, 'tsconfig.build.json'), '--outDir', target], { stdio: 'inherit' });

// The compiler rewrites the extensions in code only.
for (const file of globSync(join(target, '*.d.ts'))) {
  writeFileSync(file, readFileSync(file, 'utf8').replace(/(from '\.\/[\w-]+)\.ts'/g, "$1.js'"));
}

const { name, version, license, type } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8')) as Record<string, string>;
const published = {
  name,
  version,
  description: 'Declare and call endpoints of a Capstan service',
  license,
  type,
  exports: { '.': { types: './sdk.d.ts', default: './sdk.js' } },
  engines: { node: '>=20' },
};
writeFileSync(join(target, 'package.json'), `${JSON.stringify(published, null, 2)}\n`);
copyFileSync(join(source, '../../LICENSE'), join(target, 'LICENSE'));
