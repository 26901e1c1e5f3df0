/** Where the container engine of this host listens: the agent and `capstan deploy --preview` look in the same places. */
import { stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** Path of the socket; undefined when there is none. `setting`: a path, `auto` for the usual places, `none` for no engine at all. */
export async function findContainerSocket(setting: string): Promise<string | undefined> {
  if (setting === 'none') return undefined;
  const candidates = setting === 'auto' ? usualSockets() : [setting.replace(/^unix:\/\//, '')];
  for (const path of candidates) {
    const found = await stat(path).catch(() => undefined);
    if (found?.isSocket() === true) return path;
  }
  return undefined;
}

/** Docker as a service, Podman as a service, then those of the user alone. */
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
