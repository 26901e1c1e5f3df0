/** Stores the address and the key of a remote gateway for `capstan login`, in one file of the user. */
import { readFileSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

import { makeFolderSync, replaceDurablySync } from '../lib/durable.ts';
import { CapstanError } from '../lib/errors.ts';
import { isErrno } from '../lib/to-error.ts';
import type { Environment } from '../terminal/config.ts';

export interface Login {
  /** Base URL of the HTTP API, without a trailing slash. */
  readonly url: string;
  /** Secret. */
  readonly key: string;
}

export function loginFile({ variables }: Environment): string {
  const configured = variables['XDG_CONFIG_HOME'] ?? '';
  return join(configured === '' ? join(variables['HOME'] ?? homedir(), '.config') : configured, 'capstan', 'login.json');
}

/** Returns null when there is no login. @throws CapstanError CONFIG when the file is not valid. */
export function readLogin(environment: Environment): Login | null {
  const path = loginFile(environment);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    if (isErrno(cause, 'ENOENT', 'ENOTDIR')) return null;
    throw new CapstanError('CONFIG', `cannot read ${path}`, { cause });
  }
  try {
    const { url, key } = JSON.parse(text) as Partial<Login>;
    if (typeof url === 'string' && typeof key === 'string') return { url, key };
  } catch {
    // Its text may contain the key: the error below does not quote it.
  }
  throw new CapstanError('CONFIG', `${path} is not a valid login file; log in again: capstan login`);
}

/** Writes the file atomically, readable by the user only. */
export function writeLogin(environment: Environment, login: Login): void {
  const path = loginFile(environment);
  makeFolderSync(dirname(path), 0o700);
  replaceDurablySync(path, `${JSON.stringify(login, null, 2)}\n`);
}

export function removeLogin(environment: Environment): void {
  rmSync(loginFile(environment), { force: true });
}
