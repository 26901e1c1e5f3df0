/** `capstan call`: runs one job of an endpoint and prints its output. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { text as textOf } from 'node:stream/consumers';

import type { Job, JobSnapshot } from '../../sdk/typescript/job.ts';
import type { EndpointRow } from '../api/endpoint-row.ts';
import { tellWaitReasons } from '../api/wait-reason.ts';
import { OUTPUT_FORMATS, type Command, type Invocation } from '../command/command.ts';
import { readDuration } from '../command/duration.ts';
import { flagOption, textOption } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect, gatewayOf } from '../../client/gateway.ts';
import { CapstanError, codeOfStatus } from '../../lib/errors.ts';
import { NumberOutOfRange, parseExact, stringifyExact } from '../../lib/exact-json.ts';
import { errnoOf, messageOf } from '../../lib/to-error.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { ToolError } from '../../terminal/tool-error.ts';

/** Exit codes of jobs that ended otherwise than COMPLETED. */
const EXIT_CODES: Readonly<Record<string, number>> = { FAILED: 1, CANCELLED: 3, TIMED_OUT: 4 };

export const call: Command = {
  name: 'call',
  summary: 'Run a job on an endpoint, and print its output.',
  arguments: [
    { name: 'endpoint', description: 'id or name' },
    {
      name: 'input...',
      description: 'members of the input as <key>=<value>; a value that is valid JSON is parsed, any other is a string',
      optional: true,
    },
  ],
  options: [
    { flags: '--json <file>', description: 'the whole input, a JSON object, from a file; - for stdin' },
    {
      flags: '-o, --output <format>',
      description: 'output format; json prints the whole job, chunks of --stream always are JSON',
      choices: OUTPUT_FORMATS,
      default: 'text',
    },
    { flags: '--stream', description: 'print each chunk of a generator as it arrives, one JSON value per line' },
    { flags: '--async', description: 'print the id of the job without waiting for it to end' },
    { flags: '--env <environment>', description: 'environment of the endpoint, if its name is ambiguous' },
    {
      flags: '--timeout <duration>',
      description: 'time to wait for the job to end, such as 90s or 10m; the job continues after that',
      default: 'no limit',
    },
  ],
  settings: GATEWAY_SETTINGS,
  examples: ['call hello name=Ada', 'call count n=3 --stream', 'call sentiment --json input.json'],
  async run(invocation) {
    const { args, options, terminal } = invocation;
    const isStreamed = flagOption(options, 'stream');
    const isJson = textOption(options, 'output') === 'json';
    if (isStreamed && flagOption(options, 'async'))
      throw new CapstanError('INVALID_ARGUMENT', '--stream: not allowed with --async', { field: '--stream' });
    const seconds = readDuration('--timeout', textOption(options, 'timeout'));
    const input = await inputOf(invocation);
    const { id, key, url, show, read } = await targetOf(invocation, args[0] ?? '');
    const { EndpointClient } = await import('../../sdk/typescript/client.ts');
    const endpoint = new EndpointClient(id, { apiKey: key, baseUrl: url });
    return refusals(async () => {
      const job = await endpoint.run(input);
      if (flagOption(options, 'async')) {
        terminal.value(isJson ? JSON.stringify({ id: job.id }) : job.id);
        terminal.next(show(job));
        return 0;
      }
      terminal.progress(`Running job ${job.id}`);
      const stop = tellWaitReasons({ read, tell: (reason) => terminal.warn(`The job is queued: ${reason}`) });
      const ended = await (async () => {
        if (isStreamed) await printChunks(job, terminal);
        return job.wait(seconds === null ? {} : { timeoutMs: seconds * 1000 });
      })().finally(stop);
      terminal.progress('');
      return report(ended, { isStreamed, isJson, show: show(job), terminal });
    });
  },
};

/** The endpoint to call. */
interface Target {
  readonly id: string;
  readonly key: string;
  readonly url: string;
  /** Returns the command that shows a job. */
  readonly show: (job: Job) => string;
  /** Reads its row; undefined from the development server, which has none. */
  readonly read: () => Promise<EndpointRow | undefined>;
}

/** Under `capstan run` the endpoint of the working folder's server, unless another address or an environment is named. */
async function targetOf({ options, env, terminal }: Invocation, wanted: string): Promise<Target> {
  const settings = readSettings(options, env);
  const environment = textOption(options, 'env') ?? null;
  const { findDevEndpoint } = await import('../api/dev-endpoint.ts');
  const local = environment === null ? await findDevEndpoint(settings, env.cwd, wanted) : null;
  if (local !== null) {
    terminal.step(`calling ${local.name} of the development server at ${local.url}`);
    // The server has no keys: a real one must not be sent.
    return {
      id: local.name,
      key: 'development',
      url: local.url,
      show: (job) => `curl ${local.url}/v2/${local.name}/status/${job.id}`,
      read: async () => Promise.resolve(undefined),
    };
  }
  const { url, key } = gatewayOf(settings, env);
  const [{ findEndpoint }, { listEndpoints }] = await Promise.all([import('../api/find-endpoint.ts'), import('../api/control.ts')]);
  const client = await connect(settings, env);
  const row = findEndpoint(await listEndpoints(client, environment), wanted);
  mustHaveQueue(row);
  const read = async (): Promise<EndpointRow | undefined> => (await listEndpoints(client, environment)).find(({ id }) => id === row.id);
  return { id: row.id, key, url, show: (job) => `capstan jobs get ${row.id} ${job.id}`, read };
}

/** Prints chunks until the job ends, however it ends: its end is reported afterwards. */
async function printChunks(job: Job, terminal: Terminal): Promise<void> {
  const { JobError } = await import('../../sdk/typescript/errors.ts');
  try {
    for await (const chunk of job.stream()) terminal.data(stringifyExact(chunk));
  } catch (error) {
    if (!(error instanceof JobError)) throw error;
  }
}

interface ReportOptions {
  readonly isStreamed: boolean;
  /** The whole job is printed. */
  readonly isJson: boolean;
  /** The command that shows the job. */
  readonly show: string;
  readonly terminal: Terminal;
}

/** Prints the output, or why there is none; returns the exit code. */
function report(ended: JobSnapshot, { isStreamed, isJson, show, terminal }: ReportOptions): number {
  const { status, output, error, delayTime = 0, executionTime = 0 } = ended;
  if (isJson && !isStreamed) terminal.data(stringifyExact(ended, 2));
  if (status === 'COMPLETED') {
    if (!isStreamed && !isJson) terminal.data(stringifyExact(output ?? null, 2));
    terminal.done(`COMPLETED after ${delayTime} ms in the queue and ${executionTime} ms of execution`);
    return 0;
  }
  terminal.fail(`the job ended ${status}${error === undefined ? '' : `: ${error}`}`);
  terminal.next(show);
  return EXIT_CODES[status] ?? 1;
}

/** Errors of the SDK, as the tool shows them. */
async function refusals<T>(work: () => Promise<T>): Promise<T> {
  const { CapstanApiError, CapstanError: SdkError, detailOf, TimeoutError } = await import('../../sdk/typescript/errors.ts');
  try {
    return await work();
  } catch (error) {
    if (error instanceof TimeoutError) throw new ToolError('DEADLINE_EXCEEDED', error.message, 'The job continues.', { cause: error });
    if (error instanceof CapstanApiError)
      throw new CapstanError(codeOfStatus(error.status), detailOf(error.problem) ?? error.message, { cause: error });
    if (error instanceof SdkError) throw new CapstanError('UNAVAILABLE', error.message, { cause: error });
    throw error;
  }
}

function mustHaveQueue({ kind, name, url, routes }: EndpointRow): void {
  if (kind === 'queue') return;
  throw new ToolError(
    'INVALID_ARGUMENT',
    `endpoint: ${name} is load-balanced and does not take jobs`,
    `Call one of its routes over HTTP (${Object.keys(routes).join(', ')}) at ${url.replace(/\/v2\/([^/]+)$/, '/lb/$1')}.`,
    { field: 'endpoint' },
  );
}

/** @throws CapstanError INVALID_ARGUMENT naming the argument or the file. */
async function inputOf({ args, options, env }: Invocation): Promise<Record<string, unknown>> {
  const members = args.slice(1).map(member);
  const file = textOption(options, 'json');
  const whole = file === undefined ? {} : parseInput(await readInput(file, env.cwd), file);
  return { ...whole, ...Object.fromEntries(members) };
}

function member(text: string): [string, unknown] {
  const at = text.indexOf('=');
  if (at < 1) throw new CapstanError('INVALID_ARGUMENT', `input: ${JSON.stringify(text)} must be <key>=<value>`, { field: 'input' });
  return [text.slice(0, at), valueOf(text.slice(at + 1))];
}

function valueOf(text: string): unknown {
  try {
    return parseExact(text);
  } catch (error) {
    if (error instanceof NumberOutOfRange) throw new CapstanError('INVALID_ARGUMENT', `input: ${error.message}`, { field: 'input' });
    return text; // words need no quotes
  }
}

async function readInput(file: string, cwd: string): Promise<string> {
  if (file === '-') return textOf(process.stdin);
  try {
    return await readFile(resolve(cwd, file), 'utf8');
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    throw new CapstanError('INVALID_ARGUMENT', `--json: cannot read ${file}: ${messageOf(error)}`, { field: '--json' });
  }
}

function parseInput(text: string, file: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = parseExact(text);
  } catch (error) {
    throw new CapstanError('INVALID_ARGUMENT', `--json: ${file} is not JSON: ${messageOf(error)}`, { field: '--json' });
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new CapstanError('INVALID_ARGUMENT', `--json: ${file} must be a JSON object`, { field: '--json' });
}
