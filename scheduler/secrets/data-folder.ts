/**
 * The data folder (docs/borders.md, Data folder): its layout version and the secrets created at the first start.
 * `version` is written last, after the database was created. In a folder without it the first start has not finished,
 * and the next start finishes it; in a folder with it, missing files are lost files.
 */
import { randomBytes } from 'node:crypto';
import { chmod, readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { createDurably, makeFolder, syncPath } from '../../lib/durable.ts';
import { CapstanError } from '../../lib/errors.ts';
import { errnoOf, isErrno, messageOf } from '../../lib/to-error.ts';
import { SYSTEM_ERRORS } from '../../lib/system-errors.ts';
import { MASTER_KEY_BYTES } from './cipher.ts';
import { readOlderKeys } from './master-key-files.ts';

/** Version of the layout that this program reads and writes. */
export const LAYOUT_VERSION = 1;

/** Held in memory and in files of mode 0600; never in a log line or an error. */
export interface Secrets {
  /** The account's key, which the local CLI reads. */
  readonly apiKey: string;
  /** The gateways' credential at the scheduler. */
  readonly gatewayToken: string;
  /** The credential with which new nodes join. */
  readonly joinToken: string;
  /** 32 bytes; encrypts s3Config and env values at rest. */
  readonly masterKey: Buffer;
  /** Earlier master keys, while values may still be encrypted with them. */
  readonly olderMasterKeys: readonly Buffer[];
}

export interface DataFolder {
  /** Absolute path. */
  readonly path: string;
  readonly secrets: Secrets;
  /** The secrets that this call created; all false in a complete folder. `apiKey` means a key to show once. */
  readonly created: {
    readonly folder: boolean;
    readonly apiKey: boolean;
    readonly gatewayToken: boolean;
    readonly joinToken: boolean;
    readonly masterKey: boolean;
  };
}

export interface PrepareOptions {
  /**
   * The account's key at the first start (SERVICE_API_KEY). Without it a key is generated. Later starts keep the
   * existing key.
   */
  readonly apiKey?: string | undefined;
  /** False: the caller marks a new folder complete by {@link completeDataFolder}, once it has created the database. */
  readonly marksComplete?: boolean;
}

/**
 * Creates or opens a data folder. Fails with DATA_NEWER if a newer version of Capstan wrote it, with DATA_DIR if it
 * cannot be used, with CONFIG if the given key is invalid.
 */
export async function prepareDataFolder(dir: string, options: PrepareOptions = {}): Promise<DataFolder> {
  const path = resolve(dir);
  try {
    return await prepare(path, options);
  } catch (error) {
    if (error instanceof CapstanError) throw error;
    throw new CapstanError('DATA_DIR', `cannot use the data folder ${path}: ${reason(error)}`, { cause: error });
  }
}

/**
 * Marks a folder complete after its first start has created everything. From then on missing parts are errors and are
 * not created again.
 */
export async function completeDataFolder(path: string): Promise<void> {
  await createDurably(join(path, 'version'), `${LAYOUT_VERSION}\n`);
}

async function prepare(path: string, options: PrepareOptions): Promise<DataFolder> {
  if (options.apiKey !== undefined) checkApiKey(options.apiKey);
  await makeFolder(path, 0o700);
  if (!(await stat(path)).isDirectory()) throw new CapstanError('DATA_DIR', `cannot use the data folder ${path}: it is not a folder`);

  const first = (await readVersion(path)) === null;
  const secretsPath = join(path, 'secrets');
  await makeFolder(secretsPath, 0o700);
  await chmod(secretsPath, 0o700);

  // A lost master key must not be replaced silently: values encrypted with it could never be read again.
  if (!first && !(await exists(join(secretsPath, 'master-key')))) {
    throw new CapstanError('DATA_LOST', `cannot use the data folder ${path}: secrets/master-key is missing; restore it from a backup`);
  }
  const masterKey = await secret(join(secretsPath, 'master-key'), () => randomBytes(MASTER_KEY_BYTES).toString('hex'));
  if (!/^[0-9a-f]{64}$/.test(masterKey.text))
    throw new CapstanError('DATA_DIR', `cannot use the data folder ${path}: secrets/master-key must be 64 hex digits`);
  const apiKey = await secret(join(secretsPath, 'api-key'), () => options.apiKey ?? `cap_${token()}`);
  const gatewayToken = await secret(join(secretsPath, 'gateway-token'), token);
  const joinToken = await secret(join(secretsPath, 'join-token'), token);
  if (first && options.marksComplete !== false) await completeDataFolder(path);
  else await syncPath(path);

  return {
    path,
    secrets: {
      apiKey: apiKey.text,
      gatewayToken: gatewayToken.text,
      joinToken: joinToken.text,
      masterKey: Buffer.from(masterKey.text, 'hex'),
      olderMasterKeys: await readOlderKeys(secretsPath),
    },
    created: { folder: first, apiKey: apiKey.made, gatewayToken: gatewayToken.made, joinToken: joinToken.made, masterKey: masterKey.made },
  };
}

/** Returns the folder's layout version; null if its first start has not finished. */
async function readVersion(path: string): Promise<number | null> {
  let text: string;
  try {
    text = (await readFile(join(path, 'version'), 'utf8')).trim();
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return null;
    throw error;
  }
  if (!/^[1-9][0-9]{0,8}$/.test(text))
    throw new CapstanError('DATA_DIR', `cannot use the data folder ${path}: its file 'version' has no valid layout version`);
  const version = Number(text);
  if (version > LAYOUT_VERSION) {
    throw new CapstanError(
      'DATA_NEWER',
      `the data folder ${path} has layout version ${version}; this version of Capstan supports up to ${LAYOUT_VERSION}`,
    );
  }
  return version;
}

/** Reads a secret's file and creates it first if missing. */
async function secret(path: string, make: () => string): Promise<{ text: string; made: boolean }> {
  const made = !(await exists(path)) && (await createDurably(path, `${make()}\n`));
  if (!made) await chmod(path, 0o600);
  const text = (await readFile(path, 'utf8')).trim();
  if (text === '') throw new CapstanError('DATA_DIR', `cannot use the data folder: ${path} is empty`);
  return { text, made };
}

/** Returns 32 characters that need no quoting in a URL or a shell: 192 bits. */
function token(): string {
  return randomBytes(24).toString('base64url');
}

function checkApiKey(key: string): void {
  // The key is sent in a header and stored in a file of one line.
  if (!/^[\x21-\x7e]{1,256}$/.test(key)) {
    throw new CapstanError('CONFIG', 'SERVICE_API_KEY must be 1 to 256 printable ASCII characters without spaces', {
      field: 'SERVICE_API_KEY',
    });
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return false;
    throw error;
  }
}

/** Describes a system error without its path and call name; keeps the code for searches. */
function reason(error: unknown): string {
  const words: Readonly<Record<string, string>> = {
    ...SYSTEM_ERRORS,
    EISDIR: 'a folder is required and it is a file',
    ENOENT: 'no such file or folder',
  };
  const code = errnoOf(error);
  return code === undefined ? messageOf(error) : `${words[code] ?? messageOf(error)} (${code})`;
}
