/** Finds the socket of this host's container engine, for the agent and for previews. */
import { stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * Returns the path of the socket; undefined when there is none. `setting`: a path, `auto` for the default paths, `none`
 * for no engine.
 */
export async function findContainerSocket(setting: string): Promise<string | undefined> {
  if (setting === 'none') return undefined;
  const candidates = setting === 'auto' ? usualSockets() : [setting.replace(/^unix:\/\//, '')];
  for (const path of candidates) {
    const found = await stat(path).catch(() => undefined);
    if (found?.isSocket() === true) return path;
  }
  return undefined;
}

/** Docker as a service, Podman as a service, then the sockets of the user. */
function usualSockets(): string[] {
  const user = `/run/user/${process.getuid?.() ?? 0}`;
  return [
    '/var/run/docker.sock',
    '/run/podman/podman.sock',
    join(user, 'docker.sock'),
    join(user, 'podman/podman.sock'),
    join(homedir(), '.docker/run/docker.sock'),
  ];
}
