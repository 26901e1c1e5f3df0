/** A Compose file on a private engine, run by the real Docker Compose. */
import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import type { PrivateEngine } from './private-engine.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../../..');

/** Why there is no Docker Compose. */
export const NO_COMPOSE = 'there is no Docker Compose 2; .ci/prepare builds one where there is Go';

/** Sends a request and prints the response; `fetch` of the tests themselves is outside the engine's network. */
const REQUEST = `
const [url, key, body] = process.argv.slice(1);
const headers = { authorization: 'Bearer ' + key, 'content-type': 'application/json' };
const response = await fetch(url, body === undefined ? { headers } : { headers, method: 'POST', body });
console.log(JSON.stringify({ status: response.status, body: await response.json() }));
`;

/** The command of Docker Compose: that of CAPSTAN_TEST_COMPOSE, the one that `.ci/prepare` builds, or the plugin of `docker`. */
export async function findCompose(): Promise<readonly string[] | undefined> {
  const built = join(root, 'node_modules/.cache/docker-compose/docker-compose');
  const named = process.env['CAPSTAN_TEST_COMPOSE'] ?? '';
  for (const command of [...(named === '' ? [] : [[named]]), [built], ['docker', 'compose']]) {
    const [program = '', ...args] = command;
    if (await run(program, [...args, 'version']).then(Boolean, () => false)) return command;
  }
  return undefined;
}

export interface Response {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

export class ComposeProject {
  readonly #engine: PrivateEngine;
  readonly #command: readonly string[];
  /** Folder of the Compose file. */
  readonly folder: string;
  readonly #home: string;
  #key = '';

  private constructor(engine: PrivateEngine, command: readonly string[], folder: string, home: string) {
    this.#engine = engine;
    this.#command = command;
    this.folder = folder;
    this.#home = home;
  }

  /** A project in a folder with a Compose file; `options` go before each command of Compose: files and profiles. */
  static async make(
    engine: PrivateEngine,
    compose: readonly string[],
    folder: string,
    options: readonly string[],
  ): Promise<ComposeProject> {
    const home = join(folder, 'home');
    await mkdir(home);
    return new ComposeProject(engine, [...compose, ...options], folder, home);
  }

  /** Runs a command of Compose; returns its standard output. */
  async compose(...args: string[]): Promise<string> {
    const [program = '', ...options] = this.#command;
    const env = { ...this.#env(), DOCKER_HOST: `unix://${this.#engine.socket}` };
    return (await run(program, [...options, ...args], { cwd: this.folder, env })).stdout.trim();
  }

  /** Runs a command in the container of a service. */
  exec(service: string, ...command: string[]): Promise<string> {
    return this.compose('exec', '-T', service, ...command);
  }

  /** Services with their container's state and exit code, of all containers. */
  async containers(): Promise<ReadonlyMap<string, { readonly state: string; readonly exitCode: number }>> {
    const lines = (await this.compose('ps', '--all', '--format', 'json')).split('\n').filter((line) => line !== '');
    const rows = lines.map((line) => JSON.parse(line) as { Service: string; State: string; ExitCode: number });
    return new Map(rows.map(({ Service, State, ExitCode }) => [Service, { state: State, exitCode: ExitCode }]));
  }

  /** Reads the account's key that the scheduler made at its first start. */
  async readKey(): Promise<void> {
    this.#key = await this.exec('scheduler', 'cat', '/var/lib/capstan/secrets/api-key');
  }

  /** Runs a command of the tool as a user of the host does. */
  tool(...args: string[]): Promise<string> {
    const env = { ...this.#env(), CAPSTAN_URL: 'http://127.0.0.1:8080', SERVICE_API_KEY: this.#key };
    return this.#engine.inNetwork(process.execPath, [join(root, 'cli/capstan.mjs'), ...args], env);
  }

  /** Sends a request to the published port, a POST when there is a body; undefined when nothing answers. */
  async call(path: string, body?: object): Promise<Response | undefined> {
    const args = [`http://127.0.0.1:8080${path}`, this.#key, ...(body === undefined ? [] : [JSON.stringify(body)])];
    return this.#engine.inNetwork(process.execPath, ['--input-type=module', '-e', REQUEST, ...args], this.#env()).then(
      (text) => JSON.parse(text) as Response,
      () => undefined,
    );
  }

  /** Without settings of this machine's user. */
  #env(): NodeJS.ProcessEnv {
    return { PATH: process.env['PATH'], HOME: this.#home };
  }
}
