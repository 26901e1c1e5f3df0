/** The checks of `capstan doctor`. Each returns a finding and never throws; none changes the host. */
import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import type { NodeInfo } from '../../proto/gen/capstan/v1/control.ts';
import { CapstanError } from '../../lib/errors.ts';
import { findContainerSocket } from '../../lib/container-socket.ts';
import { isErrno, messageOf } from '../../lib/to-error.ts';
import { certificateProblem } from '../api/certificate-trust.ts';
import type { ClusterRow } from '../../lib/cluster-list.ts';
import { askSchedulers } from '../api/cluster.ts';
import { connectScheduler, type SchedulerClient } from '../api/scheduler-client.ts';
import { DEFAULT_GRPC_PORT, DEFAULT_HTTP_PORT, type Settings } from '../config.ts';
import { checkKeyTarget } from '../key-target.ts';
import { httpBase, schedulerAddress, storedApiKey, storedGatewayToken } from '../local.ts';
import { readRunFile, type RunFile } from '../run-file.ts';
import { ageOfMs } from '../terminal/age.ts';
import { explain } from '../terminal/tool-error.ts';
import { clusterProblems } from './cluster.ts';

export interface Finding {
  readonly name: string;
  readonly verdict: 'ok' | 'warning' | 'fault';
  readonly text: string;
  /** Remedy; empty when there is nothing to do. */
  readonly hint: string;
}

const LOW_DISK_BYTES = 2_000_000_000;
const FULL_DISK_BYTES = 200_000_000;
/** A clock that differs by more than this, or is earlier than this source, is reported. */
const CLOCK_SKEW_MS = 5000;
const OLDEST_TIME = Date.UTC(2025, 0, 1);
const ANSWER_MS = 3000;
const DAY_MS = 86_400_000;

export async function examine(settings: Settings): Promise<Finding[]> {
  const run = readRunFile(settings.dataDir);
  return [
    checkNode(),
    checkDataFolder(settings.dataDir),
    await checkDisk(settings.dataDir),
    ...(await checkQueue(settings.dataDir)),
    ...(run === null ? await checkPorts(settings) : []),
    await checkGpus(),
    await checkEngine(settings.containerSocket),
    ...(await checkStack(settings, run)),
  ];
}

function checkNode(): Finding {
  const { node } = process.versions;
  const name = 'Node.js';
  if (node.startsWith('24.')) return ok(name, node);
  return {
    name,
    verdict: 'warning',
    text: `${node}; Capstan is tested on 24`,
    hint: 'npm install in the checkout installs Node.js 24.',
  };
}

function checkDataFolder(dataDir: string): Finding {
  const name = 'data folder';
  const existing = nearestExisting(dataDir);
  try {
    accessSync(existing, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return fault(name, `${existing} is not writable`, 'Use another with --data-dir or CAPSTAN_DATA_DIR, or change its permissions.');
  }
  if (existing !== dataDir) return ok(name, `${dataDir}, created at the first start`);
  if (!existsSync(join(dataDir, 'version'))) return ok(name, `${dataDir}, not used yet`);
  return ok(name, `${dataDir}, layout ${readFileSync(join(dataDir, 'version'), 'utf8').trim()}`);
}

async function checkDisk(dataDir: string): Promise<Finding> {
  const name = 'disk';
  const { bavail, bsize } = await statfs(nearestExisting(dataDir));
  const free = bavail * bsize;
  const text = `${(free / 1e9).toFixed(1)} GB free at the data folder`;
  if (free < FULL_DISK_BYTES) return fault(name, text, 'Free disk space: new jobs are refused when the disk is full.');
  if (free < LOW_DISK_BYTES) return { name, verdict: 'warning', text, hint: 'Builds and large bodies need disk space.' };
  return ok(name, text);
}

/** What a scheduler on this folder would refuse to start without. */
async function checkQueue(dataDir: string): Promise<Finding[]> {
  const { findStoreLoss } = await import('../../scheduler/store-check.ts');
  const name = 'queue';
  try {
    const loss = findStoreLoss(dataDir);
    if (loss === null) return [];
    return [
      fault(
        name,
        `${loss}; acknowledged jobs or results are missing`,
        'Restore a backup, or go on without them: capstan store accept-loss (docs/backup.md).',
      ),
    ];
  } catch (error) {
    return [
      { name, verdict: 'warning', text: `cannot be checked: ${messageOf(error)}`, hint: 'Run it as a user who can read the data folder.' },
    ];
  }
}

async function checkPorts(settings: Settings): Promise<Finding[]> {
  const wanted = [
    { name: 'HTTP port', port: settings.httpPort ?? DEFAULT_HTTP_PORT, flag: '--http-port' },
    { name: 'scheduler port', port: settings.grpcPort ?? DEFAULT_GRPC_PORT, flag: '--grpc-port' },
  ];
  return Promise.all(
    wanted.map(async ({ name, port, flag }): Promise<Finding> => {
      const code = await tryListen(port);
      if (code === null) return ok(name, `${port} is free`);
      return fault(name, `${port} is not available (${code})`, `Stop the other program, or use another port with ${flag}.`);
    }),
  );
}

async function checkGpus(): Promise<Finding> {
  const name = 'GPUs';
  try {
    const { stdout } = await promisify(execFile)('nvidia-smi', ['--query-gpu=name,memory.total', '--format=csv,noheader'], {
      timeout: 15_000,
    });
    const found = stdout.split('\n').filter((line) => line.trim() !== '');
    if (found.length > 0) return ok(name, found.join('; '));
    return {
      name,
      verdict: 'warning',
      text: 'none found by nvidia-smi',
      hint: 'CPU endpoints run; check the driver if this host has a GPU.',
    };
  } catch (error) {
    const missing = isErrno(error, 'ENOENT');
    const text = missing ? 'none (nvidia-smi not found)' : 'nvidia-smi failed';
    return {
      name,
      verdict: 'warning',
      text,
      hint: missing ? 'CPU endpoints run; GPU endpoints need the NVIDIA driver.' : 'Run nvidia-smi to see its error.',
    };
  }
}

/** A container engine is optional. */
async function checkEngine(setting: string): Promise<Finding> {
  const name = 'container engine';
  const socket = await findContainerSocket(setting);
  if (socket === undefined) return ok(name, 'none; workers run as processes');
  try {
    accessSync(socket, constants.R_OK | constants.W_OK);
  } catch {
    const hint = `The agent's user must be allowed to use it; for Docker: usermod -aG docker <user>.`;
    return { name, verdict: 'warning', text: `no permission to use ${socket}`, hint };
  }
  return ok(name, socket);
}

async function checkStack(settings: Settings, run: RunFile | null): Promise<Finding[]> {
  if (run === null && settings.scheduler === undefined) {
    return [{ name: 'stack', verdict: 'warning', text: 'no stack is running on this data folder', hint: 'Start it with: capstan up' }];
  }
  const cluster = await readCluster(settings);
  return [
    ...(await checkScheduler(settings)),
    ...(cluster === null ? [] : 'cells' in cluster ? checkCluster(cluster) : [cluster]),
    ...(await checkGateway(settings)),
  ];
}

/** Cells and schedulers, as any scheduler lists them; null without the gateway token of a data folder. */
async function readCluster(settings: Settings): Promise<ClusterRow | Finding | null> {
  const token = storedGatewayToken(settings.dataDir);
  if (token === null) return null;
  try {
    return await askSchedulers(settings, token);
  } catch (error) {
    // The check of the scheduler says that it does not respond.
    if (!(error instanceof CapstanError) || !error.message.startsWith('store ')) return null;
    return fault('schedulers', error.message, 'Check that PostgreSQL runs, and that its address in CAPSTAN_STORE is right.');
  }
}

function checkCluster(cluster: ClusterRow): Finding[] {
  const name = 'schedulers';
  const problems = clusterProblems(cluster).map((problem) => ({ name, ...problem }));
  if (cluster.database === null) return problems;
  const text = cluster.cells
    .map((cell) => {
      const standbys = `${cell.standbys} ${cell.standbys === 1 ? 'standby' : 'standbys'}`;
      return `cell ${cell.name} is owned by ${cell.ownerAddress} since ${ageOfMs(cell.termAgeMs)}, ${standbys}`;
    })
    .join('; ');
  return [ok(name, text), ...problems];
}

async function checkScheduler(settings: Settings): Promise<Finding[]> {
  const name = 'scheduler';
  const address = schedulerAddress(settings);
  const key = settings.apiKey ?? storedApiKey(settings.dataDir);
  if (key === null) return [fault(name, `cannot check ${address}: no API key is set`, 'Set SERVICE_API_KEY.')];
  try {
    checkKeyTarget(settings, settings.scheduler === undefined ? 'dataDir' : 'scheduler');
  } catch (error) {
    const { message, hint } = explain(error);
    return [fault(name, message, hint)];
  }
  const client = connectScheduler(address, key, settings);
  try {
    const masterKey = await checkMasterKey(client);
    if (masterKey === null) {
      const text = `${client.address} responds; the key does not have the scope OPERATOR, so nodes and the master key were not checked`;
      return [ok(name, text)];
    }
    const nodes = await client.listNodes();
    const connected = nodes.filter((node) => node.connected).length;
    const text = `${client.address} responds; ${connected} of ${nodes.length} ${nodes.length === 1 ? 'node' : 'nodes'} connected`;
    return connected > 0
      ? [
          ok(name, text),
          ...masterKey,
          ...nodes
            .filter((node) => node.connected)
            .flatMap((node) => [...checkGateways(node), ...checkDevices(node), ...checkIsolation(node)]),
        ]
      : [{ name, verdict: 'warning', text, hint: 'Jobs wait until an agent runs: capstan up, or capstan agent.' }, ...masterKey];
  } catch (error) {
    return [fault(name, messageOf(error), 'Its log is in the data folder, logs/scheduler.log.')];
  } finally {
    client.close();
  }
}

/** The id and age of the key that encrypts secrets at rest; null when the API key is not an operator's. */
async function checkMasterKey(client: SchedulerClient): Promise<Finding[] | null> {
  const name = 'master key';
  try {
    const { id, sinceMs, rotating } = await client.masterKey();
    const days = sinceMs === undefined ? null : Math.max(0, Math.floor((Date.now() - Number(sinceMs)) / DAY_MS));
    const text = `${id}, ${days === null ? 'of unknown age' : days === 1 ? '1 day old' : `${days} days old`}`;
    if (!rotating) return [ok(name, text)];
    const hint = 'It continues automatically; the scheduler logs what delays it.';
    return [{ name, verdict: 'warning', text: `${text}; some values are still encrypted with the previous one`, hint }];
  } catch (error) {
    if (error instanceof CapstanError && error.code === 'PERMISSION_DENIED') return null;
    if (error instanceof CapstanError && error.code === 'CONFLICT') return [];
    throw error;
  }
}

/** Gateways that the agent of a node does not reach. */
function checkGateways({ name, inventory }: NodeInfo): Finding[] {
  const hint =
    'Requests of load-balanced endpoints get none of its workers there: open the port between the hosts, or set CAPSTAN_INVOKE_HOST, ' +
    'CAPSTAN_INVOKE_PORT or CAPSTAN_INVOKE_ADDRESS of the gateway (docs/install.md).';
  return (inventory?.unreachableGateways ?? []).map(({ dialed, reason }) =>
    fault(`agent of ${name}`, `does not reach the gateway at ${dialed}: ${reason}`, hint),
  );
}

/** Problems of GPUs that a node reports. */
function checkDevices({ name, inventory }: NodeInfo): Finding[] {
  const ill = (inventory?.devices ?? [])
    .filter(({ healthy }) => !healthy)
    .map(({ model, uuid, problem }) => `${model || uuid}: ${problem}`);
  if (ill.length === 0 && inventory?.deviceProblem) ill.push(inventory.deviceProblem);
  const hint = 'It is not assigned to workers until it is healthy again (docs/nodes.md).';
  return ill.map((text) => ({ name: `GPU of ${name}`, verdict: 'warning', text, hint }));
}

/** The level of isolation of a node's workers, and what is missing for a stronger one. */
function checkIsolation({ name, inventory }: NodeInfo): Finding[] {
  const isolation = inventory?.isolation;
  // An agent of an earlier version.
  if (isolation === undefined) return [];
  const { processes, processNetworks, missing } = isolation;
  const finding = `isolation of ${name}`;
  const onHost = processNetworks.includes('outbound') ? '' : "; workers have the host's network, which is weaker (worker-network.md)";
  const level = LEVELS[processes] ?? processes;
  const text = `${level}${onHost}`;
  const lacks = missing.map(({ without, reason, remedy }) => `${without}: ${reason}${remedy === '' ? '' : ` (${remedy})`}`);
  if (processes === 'sandbox' && lacks.length === 0) return [ok(finding, text)];
  return [
    { name: finding, verdict: 'warning', text, hint: `Missing: ${lacks.join('; ') || 'the setting CAPSTAN_ISOLATION names this level'}` },
  ];
}

const LEVELS: Readonly<Record<string, string>> = {
  sandbox: 'sandbox: workers see only their build and the system',
  user: 'user: each worker has a user of its own',
  none: "none: workers run as the agent's user and can read whatever it can read",
};

/** The gateway's response also contains the time of its clock. */
async function checkGateway(settings: Settings): Promise<Finding[]> {
  const base = httpBase(settings);
  let response: Response;
  try {
    response = await fetch(`${base}/docs`, { method: 'HEAD', signal: AbortSignal.timeout(ANSWER_MS) });
  } catch (error) {
    const problem = certificateProblem(base, error);
    if (problem !== null) return [fault('gateway', problem.message, problem.hint)];
    return [fault('gateway', `${base} does not respond`, 'Its log is in the data folder, logs/gateway.log.')];
  }
  return [ok('gateway', `${base} responds`), checkClock(response.headers.get('date'))];
}

function checkClock(date: string | null): Finding {
  const name = 'clock';
  const now = Date.now();
  if (now < OLDEST_TIME)
    return fault(name, `${new Date(now).toISOString()} is in the past`, 'Set the clock: ttl and retention depend on it.');
  const theirs = date === null ? Number.NaN : Date.parse(date);
  if (Number.isNaN(theirs) || Math.abs(now - theirs) <= CLOCK_SKEW_MS) return ok(name, new Date(now).toISOString());
  return {
    name,
    verdict: 'warning',
    text: `differs from the gateway’s by ${Math.round(Math.abs(now - theirs) / 1000)} s`,
    hint: 'Synchronize the clocks of the hosts with NTP.',
  };
}

function nearestExisting(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestExisting(dirname(path));
}

/** Returns null when the port is available, else the system's error code. */
function tryListen(port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => server.close(() => resolve(null)));
  });
}

function ok(name: string, text: string): Finding {
  return { name, verdict: 'ok', text, hint: '' };
}

function fault(name: string, text: string, hint: string): Finding {
  return { name, verdict: 'fault', text, hint };
}
