/**
 * Images for Compose files, made of this machine's own files: a system with Node and npm, which takes the place of Node's
 * image, and stand-ins for the images of PostgreSQL and of S3-compatible storage.
 */
import { execFile } from 'node:child_process';
import { access, cp, mkdir, realpath, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { librariesOf } from './base-image.ts';

const run = promisify(execFile);
const support = join(import.meta.dirname, '..');

/** What the Containerfile and the Compose file call besides Node, and what their shells do. */
const TOOLS = [
  '/bin/sh',
  '/usr/bin/env',
  ...['cat', 'chmod', 'chown', 'ln', 'mkdir', 'mkfifo', 'rm', 'sed', 'sleep'].map((name) => `/bin/${name}`),
  '/usr/bin/install',
];

/** Runs `docker build` with these arguments in a folder. */
export type Build = (...args: string[]) => Promise<string>;

/** Folder of npm's package on this machine; undefined where npm is spread over folders, as Debian's is. */
export async function npmFolder(path: string): Promise<string | undefined> {
  try {
    const { stdout } = await run('sh', ['-c', 'command -v npm'], { env: { PATH: path } });
    const folder = dirname(dirname(await realpath(stdout.trim())));
    await access(join(folder, 'node_modules'));
    return basename(folder) === 'npm' ? folder : undefined;
  } catch {
    return undefined;
  }
}

/** Builds a system with Node, npm, Python and a shell from `base`, which has the last two. `context` is an empty folder. */
export async function buildSystem(build: Build, context: string, { tag, base, npm }: { tag: string; base: string; npm: string }) {
  const libraries = await librariesOf(TOOLS);
  const places = [`s,^${process.execPath}$,/usr/local/bin/node,`, `s,^${npm}/,/usr/local/lib/node_modules/npm/,`];
  const transforms = places.map((place) => `--transform=${place}`);
  // -h: what a link of this machine points to.
  await run('tar', ['-chPf', join(context, 'system.tar'), ...transforms, ...TOOLS, ...libraries, process.execPath, npm]);
  await writeFile(
    join(context, 'Containerfile'),
    [
      `FROM ${base}`,
      'ADD system.tar /',
      'RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm && mkdir -p /tmp && chmod 1777 /tmp',
      'ENV PATH=/usr/local/bin:/usr/bin:/bin',
    ].join('\n'),
  );
  await build('--file', join(context, 'Containerfile'), '--tag', tag, context);
}

/** Makes a database at the first start as PostgreSQL's image does, of POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB. */
const START_POSTGRES = `#!/bin/sh
set -eu
data=/var/lib/postgresql/data
if [ ! -d "$data" ]; then
  printf %s "$POSTGRES_PASSWORD" >/tmp/password
  initdb --pgdata "$data" --username "$POSTGRES_USER" --pwfile /tmp/password --auth scram-sha-256 --no-locale --encoding UTF8
  rm /tmp/password
  echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
  echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D "$data" postgres
fi
exec postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories=/tmp
`;

/** Builds an image with this machine's PostgreSQL, whose programs are in `binaries`, pg_isready with them. */
export async function buildPostgres(
  build: Build,
  context: string,
  { tag, base, binaries }: { tag: string; base: string; binaries: string },
) {
  const version = dirname(binaries);
  // Debian has the files of a version in a second folder, and time zones in a third.
  const shared = version.startsWith('/usr/lib/postgresql/')
    ? [join('/usr/share/postgresql', basename(version)), '/usr/share/zoneinfo/UTC']
    : [];
  const needed = await librariesOf([join(binaries, 'postgres'), join(binaries, 'initdb'), join(binaries, 'pg_isready')]);
  const libraries = needed.filter((path) => !path.startsWith(`${version}/`));
  await run('tar', ['-chPf', join(context, 'postgres.tar'), '--hard-dereference', ...libraries, version, ...shared]);
  await writeFile(join(context, 'start'), START_POSTGRES, { mode: 0o755 });
  await writeFile(
    join(context, 'Containerfile'),
    [
      `FROM ${base}`,
      'ADD postgres.tar /',
      'COPY start /usr/local/bin/start-postgres',
      // The server refuses to run as root, and initdb looks its user up.
      "RUN mkdir -p /etc /var/lib/postgresql && echo 'postgres:x:999:999::/tmp:/bin/sh' >>/etc/passwd && chown 999:999 /var/lib/postgresql",
      `ENV PATH=${binaries}:/usr/local/bin:/usr/bin:/bin`,
      'USER 999:999',
      'STOPSIGNAL SIGINT',
      'ENTRYPOINT ["start-postgres"]',
    ].join('\n'),
  );
  await build('--file', join(context, 'Containerfile'), '--tag', tag, context);
}

/** Builds an image whose program `minio` is the S3-compatible server of tests. */
export async function buildBlobs(build: Build, context: string, { tag, base }: { tag: string; base: string }) {
  await mkdir(join(context, 'support/container'), { recursive: true });
  for (const name of ['s3-server.ts', 'container/s3-service.ts']) await cp(join(support, name), join(context, 'support', name));
  await writeFile(join(context, 'package.json'), JSON.stringify({ type: 'module' }));
  await writeFile(join(context, 'minio'), '#!/bin/sh\nexec node /srv/support/container/s3-service.ts\n', { mode: 0o755 });
  await writeFile(
    join(context, 'Containerfile'),
    [`FROM ${base}`, 'COPY package.json /srv/', 'COPY support /srv/support', 'COPY minio /usr/local/bin/minio'].join('\n'),
  );
  await build('--file', join(context, 'Containerfile'), '--tag', tag, context);
}
