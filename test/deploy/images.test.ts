/** The base images' files: that each image has its build, pinned, with what it promises. Building them needs registries. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { baseImages, preinstalledPackages } from '../../lib/base-images.ts';

const folder = join(import.meta.dirname, '../../deploy/images');
const read = (name: string): Promise<string> => readFile(join(folder, name), 'utf8');
const KNOWN = ['ARG', 'FROM', 'LABEL', 'RUN', 'COPY', 'USER', 'WORKDIR', 'ENV', 'CMD'];

/** Instructions with their continued lines joined. */
function instructions(text: string): [name: string, rest: string][] {
  const lines = text
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll('\\\n', ' ')
    .split('\n');
  return lines.filter((line) => line.trim() !== '').map((line) => [line.split(' ')[0] ?? '', line.slice(line.indexOf(' ') + 1)]);
}

test('the script builds each base image, and no other', async (t) => {
  const script = await read('build');
  const built = [...script.matchAll(/^build (\S+) +(\S+)/gm)].map(([, image, file]) => ({ image, file }));
  t.deepEqual(
    built,
    baseImages.map(({ name, language }) => ({ image: name, file: `Containerfile.${language}` })),
  );
  await promisify(execFile)('bash', ['-n', join(folder, 'build')]);
});

for (const language of ['python', 'node'] as const) {
  test(`the image for ${language} stands on pinned images and runs as an ordinary user`, async (t) => {
    const found = instructions(await read(`Containerfile.${language}`));
    for (const [name] of found) t.true(KNOWN.includes(name), name);
    for (const [name, rest] of found) {
      const image = name === 'FROM' ? rest : name === 'ARG' ? /^(?:BASE|NODE)=(.+)/.exec(rest)?.[1] : undefined;
      if (image !== undefined && !image.startsWith('${')) t.regex(image, /:\d+\.\d+(\.\d+)?-\S+/);
    }
    const users = found.filter(([name]) => name === 'USER').map(([, user]) => user);
    t.deepEqual(users, ['10001']);
  });
}

test('the Python image has every package that builds leave out, pinned', async (t) => {
  const text = await read('Containerfile.python');
  for (const name of preinstalledPackages) t.regex(text, new RegExp(`[ "]${name}==\\d+\\.\\d+\\.\\d+`), name);
});
