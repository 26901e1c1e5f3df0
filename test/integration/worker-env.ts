/** What user code finds in its environment, to call other endpoints with. */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { ownFolder } from '../support/own-folder.ts';
import { sharedStack } from '../support/shared-stack.ts';

const start = sharedStack(test, { CAPSTAN_WEBHOOK_ALLOW_PRIVATE: 'true' });

const HANDLERS = `export function look() {
  const { CAPSTAN_URL, CAPSTAN_ENVIRONMENT, CAPSTAN_ENDPOINT_ID, CAPSTAN_ENDPOINT_NAME, CAPSTAN_WORKER_TOKEN } = process.env;
  return { CAPSTAN_URL, CAPSTAN_ENVIRONMENT, CAPSTAN_ENDPOINT_ID, CAPSTAN_ENDPOINT_NAME, CAPSTAN_WORKER_TOKEN };
}
export const ask = look;
`;

test('a worker knows the gateway, where it is, and has a token for its environment', async (t) => {
  const folder = await ownFolder('capstan-env');
  const stack = await start();
  t.teardown(async () => {
    await rm(folder, { recursive: true });
  });
  const app = join(folder, 'app');
  await mkdir(app);
  const resources = {
    asker: { functions: [{ name: 'ask', module: 'look.ts' }], runtime: 'process' },
    looker: { functions: [{ name: 'look', module: 'look.ts' }] },
  };
  await writeFile(join(app, 'look.ts'), HANDLERS);
  await writeFile(join(app, 'tool_manifest.json'), JSON.stringify({ resources }));
  const ids = await stack.deploy(app);
  const seen = new Map<string, Record<string, string>>();
  for (const [name, id] of ids) {
    const { output } = await stack.ended(id, await stack.run(id, {}));
    seen.set(name, output as Record<string, string>);
  }
  const env = seen.get('looker') ?? {};
  t.like(env, {
    CAPSTAN_URL: stack.url,
    CAPSTAN_ENVIRONMENT: 'default',
    CAPSTAN_ENDPOINT_NAME: 'looker',
    CAPSTAN_ENDPOINT_ID: ids.get('looker'),
  });
  t.is(seen.get('asker')?.['CAPSTAN_ENDPOINT_NAME'], 'asker');
  const token = env['CAPSTAN_WORKER_TOKEN'] ?? '';
  t.not(token, seen.get('asker')?.['CAPSTAN_WORKER_TOKEN']);
  const call = async (authorization: string): Promise<number> =>
    (await fetch(`${env['CAPSTAN_URL'] ?? ''}/v2/${ids.get('asker') ?? ''}/health`, { headers: { authorization } })).status;
  t.is(await call(`Bearer ${token}`), 200);
  t.is(await call(`Bearer ${token.slice(0, -4)}aaaa`), 401);
  await t.notThrowsAsync(readsOwnJobsOnly(t, { url: stack.url, token, own: ids.get('looker') ?? '', peer: ids.get('asker') ?? '' }));
  // No secret in what the parts say of themselves.
  t.false((await stack.log()).includes(token));
});

interface Reach {
  readonly url: string;
  /** Of a worker of `own`. */
  readonly token: string;
  readonly own: string;
  /** Another endpoint of the same environment. */
  readonly peer: string;
}

/** A worker reads the jobs that it submitted to other endpoints, by their ids. It lists and purges those of its own only. */
async function readsOwnJobsOnly(t: ExecutionContext, { url, token, own, peer }: Reach): Promise<void> {
  const call = (path: string, body?: object) =>
    fetch(`${url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const submitted = (await (await call(`/v2/${peer}/runsync`, { input: {} })).json()) as { id: string; status: string };
  t.is(submitted.status, 'COMPLETED');
  for (const path of ['status', 'status-sync', 'stream']) t.is((await call(`/v2/${peer}/${path}/${submitted.id}`)).status, 200, path);
  t.is((await call(`/v2/${peer}/jobs/${submitted.id}/output`)).status, 200);
  for (const [endpoint, status] of [
    [own, 200],
    [peer, 401],
  ] as const) {
    t.is((await call(`/v2/${endpoint}/requests`)).status, status);
    t.is((await call(`/v2/${endpoint}/purge-queue`, {})).status, status);
  }
  const codeOf = async (query: string): Promise<string | undefined> => {
    const { errors } = (await (await call('/graphql', { query })).json()) as { errors?: [{ extensions: { code: string } }] };
    return errors?.[0].extensions.code;
  };
  t.is(await codeOf(`{ jobs(endpoint: "${own}") { jobs { id output } } }`), undefined);
  t.is(await codeOf(`{ jobs(endpoint: "${peer}") { jobs { id output } } }`), 'PERMISSION_DENIED');
  t.is(await codeOf(`{ job(endpoint: "${peer}", id: "${submitted.id}") { output } }`), undefined);
  t.is((await call('/metrics')).status, 401);
}
