/** A stack with further agents on the same machine, each a process with a folder, a name and made-up GPUs of its own. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Command } from '../../cli/command/command.ts';
import { nodeList } from '../../cli/commands/node-list.ts';
import { workerList } from '../../cli/commands/workers.ts';
import { createTerminal } from '../../terminal/terminal.ts';
import { writeFakeSmi } from '../agent/fake-nvidia-smi.ts';
import { guard, Stack } from './stack.ts';
import { until } from './until.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');

/** Name of the node that `capstan up` itself brings. */
export const FIRST_NODE = 'a';

/** What a command of the tool ended with. */
export interface ToolResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A node as `capstan node list --json` shows it. */
export interface FleetNode {
  readonly id: string;
  readonly name: string;
  readonly connected: boolean;
  readonly draining: boolean;
  readonly workers: number;
  readonly jobs: number;
  readonly devices: readonly { readonly uuid: string }[];
}

/** A worker as `capstan workers list --json` shows it. */
export interface FleetWorker {
  readonly id: string;
  readonly endpoint: string;
  readonly state: string;
  readonly nodeId: string;
  readonly devices: readonly string[];
  readonly releaseId: string;
}

export class Fleet {
  readonly stack: Stack;
  readonly #gpus: number;
  readonly #agents = new Map<string, ChildProcess>();

  private constructor(stack: Stack, gpus: number) {
    this.stack = stack;
    this.#gpus = gpus;
  }

  /** A stack whose own node is called `a`; `gpus` is how many every node has. */
  static async start(gpus: number, variables: Readonly<Record<string, string>> = {}): Promise<Fleet> {
    const stack = await Stack.start({ CAPSTAN_NODE_NAME: FIRST_NODE, CAPSTAN_INVENTORY_MS: '500', ...variables }, async (folder) => ({
      CAPSTAN_NVIDIA_SMI: await fakeSmi(folder, FIRST_NODE, gpus),
    }));
    return new Fleet(stack, gpus);
  }

  /** Starts an agent, or starts it again on its folder. `clock` puts a module before it. */
  async agent(name: string, clock: 'right' | 'skewed' = 'right'): Promise<ChildProcess> {
    const folder = join(this.stack.scratch, `node-${name}`);
    await mkdir(folder, { recursive: true });
    const { grpc } = JSON.parse(await readFile(join(this.stack.dataDir, 'run.json'), 'utf8')) as { grpc: string };
    const log = openSync(join(folder, 'agent.log'), 'a');
    const skew = clock === 'right' ? [] : ['--import', join(import.meta.dirname, 'skewed-clock.mjs')];
    const child = spawn(process.execPath, [...skew, tool, 'agent'], {
      cwd: folder,
      stdio: ['ignore', log, log],
      env: {
        ...this.stack.variables,
        CAPSTAN_DATA_DIR: folder,
        CAPSTAN_SCHEDULER: grpc,
        CAPSTAN_JOIN_TOKEN_FILE: join(this.stack.dataDir, 'secrets/join-token'),
        CAPSTAN_NODE_NAME: name,
        CAPSTAN_NVIDIA_SMI: await fakeSmi(folder, name, this.#gpus),
      },
    });
    closeSync(log);
    const watch = guard(child.pid ?? 0);
    child.once('exit', () => watch.kill('SIGKILL'));
    this.#agents.set(name, child);
    return child;
  }

  /** Starts an agent and waits until its node is connected with its devices. */
  async join(name: string, clock: 'right' | 'skewed' = 'right'): Promise<void> {
    await this.agent(name, clock);
    await this.connected(name);
  }

  async connected(name: string): Promise<FleetNode> {
    return until(`the node ${name} is connected`, async () => {
      const node = (await this.nodes()).find((each) => each.name === name);
      return node?.connected === true && node.devices.length === this.#gpus ? node : null;
    });
  }

  /** Process id of a node's agent. */
  pid(name: string): number {
    const pid = name === FIRST_NODE ? this.#ownAgent() : this.#agents.get(name)?.pid;
    if (pid === undefined) throw new Error(`no agent ${name}`);
    return pid;
  }

  /** kill -9 of an agent. That of `capstan up` comes back by itself. */
  async kill(name: string): Promise<void> {
    const child = this.#agents.get(name);
    if (child === undefined) {
      process.kill(this.pid(name), 'SIGKILL');
      return;
    }
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  /** Whether the agent of a node runs. */
  isUp(name: string): boolean {
    const child = this.#agents.get(name);
    return child === undefined ? this.#ownAgent() !== undefined : child.exitCode === null && child.signalCode === null;
  }

  /** Ends the further agents in order. */
  async endAgents(): Promise<void> {
    const running = [...this.#agents.values()].filter((child) => child.exitCode === null && child.signalCode === null);
    await Promise.all(
      running.map(async (child) => {
        const exited = once(child, 'exit');
        child.kill('SIGTERM');
        await exited;
      }),
    );
  }

  async log(name: string): Promise<string> {
    return readFile(join(this.stack.scratch, `node-${name}`, 'agent.log'), 'utf8');
  }

  /** Copies a node's identity to the folder of another agent. */
  async copyIdentity(from: string, to: string): Promise<void> {
    const folder = join(this.stack.scratch, `node-${to}`, 'agent');
    await mkdir(folder, { recursive: true });
    await cp(join(this.stack.scratch, `node-${from}`, 'agent/node.json'), join(folder, 'node.json'));
  }

  /** Runs the tool against this stack. */
  tool(...args: string[]): Promise<ToolResult> {
    const env = { ...this.stack.variables, CAPSTAN_HTTP_PORT: '', CAPSTAN_GRPC_PORT: '' };
    return new Promise((resolve) => {
      execFile(process.execPath, [tool, ...args], { env, cwd: this.stack.scratch }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr });
      });
    });
  }

  /** Deploys a copy of the folder with its manifest changed. */
  async deployChanged(source: string, change: (manifest: string) => string): Promise<void> {
    const copy = join(this.stack.scratch, 'changed');
    await cp(source, copy, { recursive: true });
    const manifest = join(copy, 'tool_manifest.json');
    await writeFile(manifest, change(await readFile(manifest, 'utf8')));
    const { code, stderr } = await this.tool('deploy', copy, '--json', '--no-wait');
    if (code !== 0) throw new Error(`capstan deploy ended with ${code}: ${stderr}`);
  }

  async nodes(): Promise<FleetNode[]> {
    return this.#json<FleetNode[]>(nodeList);
  }

  async workers(): Promise<FleetWorker[]> {
    return this.#json<FleetWorker[]>(workerList);
  }

  /** Ends everything. */
  async close(): Promise<void> {
    for (const child of this.#agents.values()) child.kill('SIGTERM');
    await this.stack.close();
  }

  /** The command in this process: it is asked again and again, and each start of the tool would take half a second of a processor. */
  async #json<T>(command: Command): Promise<T> {
    const printed: string[] = [];
    const out = { write: (text: string): boolean => printed.push(text) > 0 };
    const terminal = createTerminal({ out, err: { write: () => true }, colours: false });
    const variables = { ...this.stack.variables, CAPSTAN_HTTP_PORT: '', CAPSTAN_GRPC_PORT: '' };
    await command.run({ args: [], options: { json: true }, env: { variables, cwd: this.stack.scratch }, terminal });
    return JSON.parse(printed.join('')) as T;
  }

  /** Among several agents, the one that the supervisor started. */
  #ownAgent(): number | undefined {
    const up = this.stack.pid('up');
    return this.stack.processes().find(({ role, parent }) => role === 'agent' && parent === up)?.pid;
  }
}

function fakeSmi(folder: string, name: string, gpus: number): Promise<string> {
  const list = Array.from({ length: gpus }, (_, i) => ({ uuid: `GPU-${name}-${i}`, name: 'NVIDIA RTX A5000', memoryMiB: 24_564 }));
  return writeFakeSmi(join(folder, 'smi'), { gpus: list });
}
