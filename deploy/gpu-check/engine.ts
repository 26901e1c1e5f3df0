/** The container engine of this machine, over the HTTP API that Docker and Podman share. */
import { request } from 'node:http';
import { existsSync, readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';

export interface EngineInfo {
  readonly socket: string;
  /** Names of its runtimes, with their arguments. */
  readonly runtimes: ReadonlyMap<string, readonly string[]>;
}

interface InfoDocument {
  readonly Runtimes?: Readonly<Record<string, { readonly path?: string; readonly runtimeArgs?: readonly string[] | null }>>;
}

const CALL_MS = 10_000;
const CDI_FOLDERS = ['/etc/cdi', '/var/run/cdi'];

/** Returns the engine; undefined where none answers. */
export async function findEngine(setting = process.env['CAPSTAN_CONTAINER_SOCKET'] ?? 'auto'): Promise<EngineInfo | undefined> {
  if (setting === 'none') return undefined;
  const user = `/run/user/${process.getuid?.() ?? 0}`;
  const usual = ['/var/run/docker.sock', '/run/podman/podman.sock', join(user, 'docker.sock'), join(user, 'podman/podman.sock')];
  const candidates = setting === 'auto' ? [...usual, join(homedir(), '.docker/run/docker.sock')] : [setting.replace(/^unix:\/\//, '')];
  for (const socket of candidates.filter((path) => existsSync(path))) {
    const text = await call(socket, 'GET', '/info', { signal: AbortSignal.timeout(CALL_MS) }).catch(() => undefined);
    if (text === undefined) continue;
    const { Runtimes = {} } = JSON.parse(text) as InfoDocument;
    return { socket, runtimes: new Map(Object.entries(Runtimes).map(([name, { runtimeArgs }]) => [name, runtimeArgs ?? []])) };
  }
  return undefined;
}

/**
 * How this engine gives containers their GPUs, as CAPSTAN_CONTAINER_GPUS says it; undefined where it cannot. Without device files
 * there is nothing to give.
 */
export function gpuAccess({ runtimes }: EngineInfo): string | undefined {
  const chosen = process.env['CAPSTAN_CONTAINER_GPUS'];
  if (chosen !== undefined && chosen !== '') return chosen;
  if (runtimes.has('nvidia')) return 'nvidia';
  const specifications = CDI_FOLDERS.flatMap((folder) => (existsSync(folder) ? readdirSync(folder) : []));
  if (specifications.some((name) => /nvidia.*\.(?:ya?ml|json)$/i.test(name))) return 'cdi';
  return hasDeviceFiles() ? undefined : 'environment';
}

export function hasDeviceFiles(): boolean {
  return readdirSync('/dev').some((name) => /^nvidia\d+$/.test(name));
}

/** Makes an image of a tar of its files. */
export async function importImage({ socket }: EngineInfo, name: string, tar: Readable, signal: AbortSignal): Promise<void> {
  await call(socket, 'POST', `/images/create?fromSrc=-&repo=${encodeURIComponent(name)}`, { signal, body: tar });
}

/** Resolves also where there is no such image. */
export async function removeImage({ socket }: EngineInfo, name: string): Promise<void> {
  const signal = AbortSignal.timeout(CALL_MS);
  await call(socket, 'DELETE', `/images/${encodeURIComponent(name)}?force=true`, { signal }).catch((error: unknown) => {
    if (!(error instanceof Error && /: 404 /.test(error.message))) throw error;
  });
}

/** Rejects with the engine's words. */
function call(
  socketPath: string,
  method: string,
  path: string,
  { signal, body }: { signal: AbortSignal; body?: Readable },
): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request(
      { socketPath, method, path, signal, headers: { host: 'engine', 'content-type': 'application/x-tar' } },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (part: string) => (text += part));
        answer.once('error', reject);
        answer.once('end', () => {
          // An import answers 200 first and tells its failure in the stream.
          const failed = (answer.statusCode ?? 500) >= 300 || /"error(?:Detail)?":/.test(method === 'POST' ? text : '');
          if (failed) reject(new Error(`${method} ${path}: ${answer.statusCode ?? ''} ${text.trim().slice(0, 300)}`));
          else resolve(text);
        });
      },
    );
    sent.once('error', reject);
    if (body === undefined) sent.end();
    else {
      body.once('error', (error) => sent.destroy(error));
      body.pipe(sent);
    }
  });
}
