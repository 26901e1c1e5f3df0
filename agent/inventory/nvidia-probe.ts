/**
 * nvidia-smi as a device probe. Its full report comes through node-nvidia-smi, which is isolated in three ways: it runs
 * in a separate process that can be killed when it hangs; a wrapper script diverts nvidia-smi's stderr, because the
 * library treats any stderr output as a failure; and the result is validated (nvidia-report.ts). The frequent probe
 * requests a table from nvidia-smi directly.
 */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { access, chmod, constants, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';

import { messageOf } from '../../lib/to-error.ts';
import { endGroup } from '../runtimes/process-group.ts';
import { devicesOfReport } from './nvidia-report.ts';
import {
  facts,
  LIGHT_COLUMNS,
  messageIn,
  OLD_COLUMNS,
  parseLight,
  parseList,
  RENAMED_COLUMNS,
  type LightRow,
  type ListedSlice,
} from './nvidia-text.ts';
import type { DeviceFacts, DeviceProbe, ProbeResult } from './probe.ts';

const REPORTER = fileURLToPath(new URL('./nvidia-reporter.ts', import.meta.url));
/**
 * Runs its arguments as a program and kills the whole process group when file descriptor 3 closes: a hanging nvidia-smi
 * must not outlive a killed agent.
 */
const LEASH = '{ read -r _ <&3; kill -KILL 0; } >/dev/null 2>&1 & exec 3<&-; "$@"';
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;

export interface NvidiaProbeOptions {
  /** Name on PATH, or path, of nvidia-smi. */
  readonly program: string;
  readonly timeoutMs: number;
  /** Folder for the wrapper script. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
}

export class NvidiaProbe implements DeviceProbe {
  readonly #options: NvidiaProbeOptions;
  readonly #running = new Set<() => void>();
  #slices: readonly ListedSlice[] = [];
  #closed = false;

  constructor(options: NvidiaProbeOptions) {
    this.#options = options;
  }

  async full(): Promise<ProbeResult> {
    const program = await this.#find();
    if (program === undefined) return { kind: 'none' };
    const [report, list, light] = await Promise.all([this.#report(program), this.#call(program, ['-L']), this.light()]);
    if ('problem' in report) {
      // The table alone gives a full set of whole GPUs.
      return light.kind === 'devices' ? { ...light, problem: report.problem } : { kind: 'failed', problem: report.problem };
    }
    // Slices keep their names while the list is unavailable.
    if (list.problem === undefined) this.#slices = parseList(list.stdout);
    const result = devicesOfReport(report.value, this.#slices);
    if (result.kind !== 'devices' || light.kind !== 'devices') return result;
    const rows = new Map(light.devices.map((device) => [device.uuid, device]));
    const devices = result.devices.map((device) => {
      const row = rows.get(device.parentUuid ?? device.uuid);
      if (row === undefined) return device;
      const { computeCapability, powerMilliwatts, throttleReasons } = row;
      const isWhole = device.parentUuid === undefined;
      // Gauges of a GPU say nothing about one of its slices.
      return {
        ...device,
        ...facts<DeviceFacts>({ computeCapability, ...(isWhole ? { powerMilliwatts, throttleReasons } : {}) } as DeviceFacts),
      };
    });
    return { ...result, devices };
  }

  async light(): Promise<ProbeResult> {
    const program = await this.#find();
    if (program === undefined) return { kind: 'none' };
    let answer = await this.#query(program, LIGHT_COLUMNS);
    for (const columns of [RENAMED_COLUMNS, OLD_COLUMNS]) {
      if (answer.problem === undefined || !/not a valid field/i.test(answer.problem)) break;
      answer = await this.#query(program, columns);
    }
    // One lost GPU can fail the whole call although the others are listed.
    if (answer.rows.length === 0 && answer.problem !== undefined) return { kind: 'failed', problem: answer.problem };
    return { kind: 'devices', devices: answer.rows.map(withoutMigGauges), problem: answer.problem ?? '' };
  }

  close(): void {
    this.#closed = true;
    for (const giveUp of this.#running) giveUp();
  }

  async #query(program: string, columns: readonly string[]): Promise<{ rows: LightRow[]; problem?: string }> {
    const answer = await this.#call(program, [`--query-gpu=${columns.join(',')}`, '--format=csv,noheader,nounits']);
    return { ...answer, rows: parseLight(answer.stdout) };
  }

  /** node-nvidia-smi's object, parsed from the output of its process. */
  async #report(program: string): Promise<{ value: unknown } | { problem: string }> {
    const { folder, env } = this.#options;
    const errors = join(folder, 'stderr');
    const output = join(folder, 'stdout');
    try {
      await mkdir(folder, { recursive: true });
      const wrapper = join(folder, 'nvidia-smi');
      // stdout is kept as well: nvidia-smi explains its failures there.
      const call = `${shellQuote(program)} "$@" >${shellQuote(output)} 2>${shellQuote(errors)}`;
      await writeFile(wrapper, `#!/bin/sh\n${call}\ncode=$?\ncat ${shellQuote(output)}\nexit $code\n`);
      await chmod(wrapper, 0o755);
      const answer = await this.#run(process.execPath, [REPORTER], { ...env, PATH: `${folder}${delimiter}${env['PATH'] ?? ''}` });
      if (answer.problem === undefined) return { value: JSON.parse(answer.stdout) as unknown };
      const said = messageIn(...(await Promise.all([errors, output].map((file) => readFile(file, 'utf8').catch(() => '')))));
      return { problem: said === '' ? answer.problem : `nvidia-smi: ${said}` };
    } catch (error) {
      return { problem: `nvidia-smi: starting it failed: ${messageOf(error)}` };
    } finally {
      await Promise.all([errors, output].map((file) => rm(file, { force: true })));
    }
  }

  #call(program: string, args: readonly string[]): Promise<{ stdout: string; problem?: string }> {
    return this.#run(program, args, this.#options.env);
  }

  /**
   * Runs one program and returns its output; kills it with all its children after the time-out. Warnings on stderr are
   * ignored.
   */
  async #run(
    program: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
  ): Promise<{ stdout: string; problem?: string }> {
    if (this.#closed) return { stdout: '', problem: 'the agent is stopping' };
    const { timeoutMs } = this.#options;
    const child = spawn('/bin/sh', ['-c', LEASH, 'sh', program, ...args], {
      detached: true,
      env,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    }) as ChildProcessByStdio<null, Readable, Readable>;
    const { stdout, stderr } = child;
    const output = { stdout: '', stderr: '' };
    stdout.setEncoding('utf8').on('data', (text: string) => {
      if (output.stdout.length < MAX_OUTPUT_BYTES) output.stdout += text;
    });
    stderr.setEncoding('utf8').on('data', (text: string) => {
      if (output.stderr.length < MAX_OUTPUT_BYTES) output.stderr += text;
    });
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    child.once('error', (error) => resolve(`nvidia-smi: running it failed: ${error.message}`));
    // Not `close`: the leash keeps its descriptor open until the group is killed below.
    const said = Promise.all([stdout, stderr].map((stream) => new Promise((done) => stream.once('close', done))));
    child.once('exit', (code, signal) => {
      const ended = `it ended with ${signal ?? `code ${code ?? 'unknown'}`}`;
      void said.then(() => resolve(code === 0 ? undefined : `nvidia-smi: ${messageIn(output.stderr, output.stdout) || ended}`));
    });
    const timer = setTimeout(() => resolve(`nvidia-smi did not respond within ${timeoutMs} ms`), timeoutMs);
    const giveUp = (): void => resolve('the agent is stopping');
    this.#running.add(giveUp);
    const problem = await promise;
    this.#running.delete(giveUp);
    clearTimeout(timer);
    if (child.pid !== undefined) await endGroup(child.pid);
    return { stdout: output.stdout, ...(problem === undefined ? {} : { problem }) };
  }

  /** Returns the program's path; absent when it is not found, which means a host without such GPUs. */
  async #find(): Promise<string | undefined> {
    const { program, env } = this.#options;
    const candidates = program.includes('/')
      ? [program]
      : (env['PATH'] ?? '').split(delimiter).map((folder) => join(folder || '.', program));
    for (const candidate of candidates) {
      const runnable = await access(candidate, constants.X_OK).then(
        () => true,
        () => false,
      );
      if (runnable) return candidate;
    }
    return undefined;
  }
}

/** A GPU in MIG mode is not a device itself; its row still has facts for its slices. */
function withoutMigGauges({ migEnabled, ...row }: LightRow): DeviceFacts {
  return migEnabled ? { ...row, problem: row.problem ?? MIG_PARENT } : row;
}

/** Marks the row of a GPU in MIG mode; only the full probe knows its slices. */
export const MIG_PARENT = 'in MIG mode: only its slices are usable as devices';

function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
