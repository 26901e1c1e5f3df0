/** Credentials of image registries, in the file format of `docker login` and `podman login`. */
import { readFile } from 'node:fs/promises';

import { z } from 'zod';

import { CapstanError } from '../../../lib/errors.ts';

const authFile = z.object({
  auths: z.record(z.string(), z.object({ auth: z.string().optional(), identitytoken: z.string().optional() })).default({}),
});

/** Credentials that the engine sends with a pull. Secret. */
export interface RegistryCredentials {
  readonly username: string;
  readonly password: string;
  readonly serveraddress: string;
  readonly identitytoken?: string;
}

const DOCKER_HUB = 'docker.io';

/** Returns the registry of an image reference: its first part, if that is a host name. */
export function registryOf(image: string): string {
  const [first = '', ...rest] = image.split('/');
  return rest.length > 0 && (/[.:]/.test(first) || first === 'localhost') ? first : DOCKER_HUB;
}

/**
 * Returns the credentials for the image's registry; absent if the file has none. Reads the file each time. Throws
 * CONFIG without a secret in the message.
 */
export async function credentialsFor(image: string, file: string | undefined): Promise<RegistryCredentials | undefined> {
  if (file === undefined) return undefined;
  const registry = registryOf(image);
  const { auths } = await readAuthFile(file);
  for (const [address, { auth, identitytoken }] of Object.entries(auths)) {
    if (hostOf(address) !== registry) continue;
    const decoded = Buffer.from(auth ?? '', 'base64').toString();
    const colon = decoded.indexOf(':');
    if (colon === -1 && identitytoken === undefined) continue;
    return {
      username: decoded.slice(0, Math.max(0, colon)),
      password: decoded.slice(colon + 1),
      serveraddress: address,
      ...(identitytoken === undefined ? {} : { identitytoken }),
    };
  }
  return undefined;
}

async function readAuthFile(file: string): Promise<z.output<typeof authFile>> {
  const broken = (reason: string): CapstanError =>
    new CapstanError('CONFIG', `CAPSTAN_REGISTRY_AUTH_FILE: ${reason}: ${file}`, { field: 'registryAuthFile' });
  let value: unknown;
  try {
    value = JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    // A parser's message may quote its input.
    throw broken(error instanceof SyntaxError ? 'the file is not JSON' : 'reading the file failed');
  }
  const parsed = authFile.safeParse(value);
  if (!parsed.success) throw broken('the file has no `auths`, the format of docker login');
  return parsed.data;
}

/** Reduces `https://index.docker.io/v1/` and `ghcr.io/someone` to the host name. */
function hostOf(address: string): string {
  const host = address.replace(/^https?:\/\//, '').split('/')[0] ?? '';
  return host === 'index.docker.io' ? DOCKER_HUB : host;
}
