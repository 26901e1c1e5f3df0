/** Two hosts as docs/install.md and docs/systemd.md set them up: network namespaces with addresses of their own, and the pages' own commands. */
import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { until } from '../support/until.ts';

const root = join(import.meta.dirname, '../..');
const tool = join(root, 'cli/main.ts');
const run = promisify(execFile);

export type HostName = 'queue' | 'gpu';
export type Part = 'scheduler' | 'gateway' | 'agent';

/** The folders of the pages, each in the folder of the test. */
const FOLDERS = /\/(?=(?:etc\/capstan|var\/lib\/capstan))/g;

export class TwoHosts {
  readonly #folder: string;
  readonly #children = new Map<Part, ChildProcess>();
  /** The second and third number keep runs apart that happen at once. */
  readonly #net = `10.${100 + (process.pid % 90)}.${(process.pid >> 7) & 255}`;

  constructor(folder: string) {
    this.#folder = folder;
    for (const host of ['queue', 'gpu'] as const) {
      ip('netns', 'add', this.#namespace(host));
      ip('-n', this.#namespace(host), 'link', 'set', 'lo', 'up');
      mkdirSync(`/etc/netns/${this.#namespace(host)}`, { recursive: true });
      writeFileSync(`/etc/netns/${this.#namespace(host)}/hosts`, `127.0.0.1 localhost\n${this.address('queue')} queue.example.net\n`);
      for (const path of ['etc/capstan', 'var/lib/capstan', 'var/lib/capstan-gateway', 'var/lib/capstan-agent'])
        mkdirSync(join(this.#folder, host, path), { recursive: true });
    }
    const [near, far] = [`ct${process.pid}a`, `ct${process.pid}b`];
    ip('-n', this.#namespace('queue'), 'link', 'add', near, 'type', 'veth', 'peer', 'name', far, 'netns', this.#namespace('gpu'));
    for (const [host, device] of [
      ['queue', near],
      ['gpu', far],
    ] as const) {
      ip('-n', this.#namespace(host), 'addr', 'add', `${this.address(host)}/30`, 'dev', device);
      ip('-n', this.#namespace(host), 'link', 'set', device, 'up');
    }
    this.#makeCertificates();
    for (const part of ['scheduler', 'gateway', 'agent'] as const) this.#writeSettings(part);
  }

  address(host: HostName): string {
    return `${this.#net}.${host === 'queue' ? 1 : 2}`;
  }

  /** Starts a part with the settings of its unit and of the page, as systemd would, and with other values for some. */
  start(part: Part, others: Readonly<Record<string, string>> = {}): void {
    const host = part === 'agent' ? 'gpu' : 'queue';
    const log = join(this.#folder, `${part}.log`);
    const command = `exec "$@" >>${log} 2>&1`;
    const args = ['netns', 'exec', this.#namespace(host), 'sh', '-c', command, 'sh', process.execPath, tool, part];
    this.#children.set(part, spawn('ip', args, { env: { ...bare(), ...this.settingsOf(part), ...others }, stdio: 'ignore' }));
  }

  async end(part: Part): Promise<void> {
    const child = this.#children.get(part);
    this.#children.delete(part);
    if (child?.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill();
    await ended;
  }

  /** Copies the secret of the scheduler's folder as the page says. */
  async copySecrets(): Promise<void> {
    const secrets = join(this.#folder, 'queue/var/lib/capstan/secrets');
    const copies = [
      ['gateway-token', 'queue/var/lib/capstan-gateway'],
      ['join-token', 'gpu/var/lib/capstan-agent'],
    ] as const;
    for (const [name, to] of copies) {
      await until(`the scheduler has made ${name}`, () => readSoon(join(secrets, name)) !== '');
      cpSync(join(secrets, name), join(this.#folder, to, name));
    }
  }

  /** Runs a command of the tool on a host, with more variables; resolves with its output, whatever its exit code. */
  async tool(
    host: HostName,
    args: readonly string[],
    variables: Readonly<Record<string, string>> = {},
  ): Promise<{ code: number; text: string }> {
    return this.#run(host, [process.execPath, tool, ...args], variables);
  }

  /** Makes a request on a host; returns status and body. */
  async get(host: HostName, url: string, key: string): Promise<{ status: number; text: string; head: string }> {
    const { text } = await this.#run(host, ['curl', '-s', '-i', '--max-time', '60', '-H', `authorization: Bearer ${key}`, url]);
    const at = text.indexOf('\r\n\r\n');
    return { status: Number(/^HTTP\S+ (\d+)/.exec(text)?.[1] ?? 0), head: text.slice(0, at).toLowerCase(), text: text.slice(at + 4) };
  }

  /** Makes a query on a host; returns the response's text. */
  async graphql(host: HostName, base: string, query: string, key: string): Promise<string> {
    const head = ['-H', `authorization: Bearer ${key}`, '-H', 'content-type: application/json'];
    return (await this.#run(host, ['curl', '-s', ...head, '-d', JSON.stringify({ query }), `${base}/graphql`])).text;
  }

  /** Rejects TCP to a port of the queue's host on the GPU host. */
  reject(port: string, isOn: boolean): void {
    const rule = ['OUTPUT', '-p', 'tcp', '--dport', port, '-j', 'REJECT', '--reject-with', 'tcp-reset'];
    ip('netns', 'exec', this.#namespace('gpu'), 'iptables', '-w', isOn ? '-A' : '-D', ...rule);
  }

  get apiKey(): string {
    return readSoon(join(this.#folder, 'queue/var/lib/capstan/secrets/api-key'));
  }

  log(part: Part): string {
    return readSoon(join(this.#folder, `${part}.log`));
  }

  dataDir(part: Part): string {
    return String(this.settingsOf(part)['CAPSTAN_DATA_DIR']);
  }

  async close(): Promise<void> {
    for (const part of [...this.#children.keys()]) await this.end(part);
    for (const host of ['queue', 'gpu'] as const) {
      ip('netns', 'del', this.#namespace(host));
      rmSync(`/etc/netns/${this.#namespace(host)}`, { recursive: true, force: true });
    }
  }

  #namespace(host: HostName): string {
    return `capstan-${host}-${process.pid}`;
  }

  #run(
    host: HostName,
    words: readonly string[],
    variables: Readonly<Record<string, string>> = {},
  ): Promise<{ code: number; text: string }> {
    const env = { ...bare(), ...variables };
    return run('ip', ['netns', 'exec', this.#namespace(host), ...words], { env, cwd: this.#folder }).then(
      ({ stdout, stderr }) => ({ code: 0, text: `${stdout}${stderr}` }),
      (error: { code: number; stdout: string; stderr: string }) => ({ code: error.code, text: `${error.stdout}${error.stderr}` }),
    );
  }

  /** The authority and a certificate for each host, by the commands of docs/install.md. */
  #makeCertificates(): void {
    const block = blockWith('docs/install.md', 'openssl req -x509');
    const [authority = '', perHost = ''] = block.split(/^# for each host.*$/m);
    const shell = (text: string): unknown => execFileSync('bash', ['-euc', text], { cwd: this.#folder, stdio: 'pipe' });
    shell(authority);
    for (const host of ['queue', 'gpu'] as const) {
      const name = host === 'queue' ? 'queue.example.net' : 'gpu-7';
      shell(perHost.replaceAll('gpu-7', name).replaceAll('10.0.0.7', this.address(host)));
      for (const file of ['ca.crt', 'host.crt', 'host.key'])
        cpSync(join(this.#folder, file), join(this.#folder, host, 'etc/capstan', file));
    }
  }

  /** The part's file of settings, as docs/systemd.md writes it. */
  #writeSettings(part: Part): void {
    const host = part === 'agent' ? 'gpu' : 'queue';
    const [, text = ''] = new RegExp(`cat > /etc/capstan/${part}\\.env <<'ENV'\\n([^]*?)\\nENV`).exec(page('docs/systemd.md')) ?? [];
    if (text === '') throw new Error(`docs/systemd.md does not write ${part}.env`);
    writeFileSync(join(this.#folder, host, `etc/capstan/${part}.env`), this.#placed(host, text));
  }

  /** The variables of a part: of its unit, and of its file of settings. */
  settingsOf(part: Part): Record<string, string> {
    const host = part === 'agent' ? 'gpu' : 'queue';
    const unit = page(`deploy/systemd/capstan-${part}.service`);
    const own = [...unit.matchAll(/^Environment=(\S+)$/gm)].map(([, line = '']) => line).join('\n');
    const lines = `${this.#placed(host, own)}\n${readFileSync(join(this.#folder, host, `etc/capstan/${part}.env`), 'utf8')}`;
    const settings = lines
      .split('\n')
      .flatMap((line) => (line.includes('=') ? [[line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]] : []));
    return Object.fromEntries(settings) as Record<string, string>;
  }

  #placed(host: HostName, text: string): string {
    return text.replaceAll(FOLDERS, `${join(this.#folder, host)}/`);
  }
}

/** What this machine has must not matter. */
function bare(): NodeJS.ProcessEnv {
  const { PATH, CAPSTAN_ISOLATION, HOME } = process.env;
  return {
    PATH,
    HOME,
    CAPSTAN_ISOLATION,
    CAPSTAN_CONTAINER_SOCKET: 'none',
    CAPSTAN_SPARE_HOSTS: '0',
    CAPSTAN_INVENTORY_MS: '1000',
    NO_COLOR: '1',
  };
}

function page(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

function blockWith(path: string, text: string): string {
  const found = [...page(path).matchAll(/^```\w*\n([^]*?)^```$/gm)].find(([, block = '']) => block.includes(text))?.[1];
  if (found === undefined) throw new Error(`${path} has no block with ${text}`);
  return found;
}

function readSoon(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return ''; // not written yet
  }
}

function ip(...args: string[]): void {
  execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
