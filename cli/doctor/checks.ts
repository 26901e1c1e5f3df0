/** The checks of `capstan doctor`. Each returns a finding and never throws; none changes the host. */
import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import type { NodeInfo } from '../../proto/gen/capstan/v1/control.ts';
import { CapstanError } from '../../lib/errors.ts';
import { findContainerSocket } from '../../lib/container-socket.ts';
import { isErrno, messageOf } from '../../lib/to-error.ts';
import type { ClusterRow } from '../../lib/owner/cluster-list.ts';
import { askSchedulers } from '../api/cluster.ts';
import { connectScheduler, type SchedulerClient } from '../../client/scheduler-client.ts';
import type { Environment, Settings } from '../../terminal/config.ts';
import { checkKeyTarget } from '../../client/key-target.ts';
import { storedApiKey, storedGatewayToken } from '../../supervisor/stored-secrets.ts';
import { httpBase, schedulerAddress } from '../../client/local.ts';
import { readLogin } from '../../client/login-file.ts';
import { readRunFile, type RunFile } from '../../supervisor/run-file.ts';
import { ageOfMs } from '../../terminal/age.ts';
import { explain } from '../../terminal/tool-error.ts';
import { clusterProblems } from './cluster.ts';
import { fault, ok, warning, type Finding } from './finding.ts';
import { checkGateway, checkService } from './gateway.ts';
import { deviceFindings, gatewayFindings, isolationFindings } from './node.ts';
import { checkPorts, type OwnPorts } from './ports.ts';

const LOW_DISK_BYTES = 2_000_000_000;
const FULL_DISK_BYTES = 200_000_000;
const DAY_MS = 86_400_000;

export type { Finding } from './finding.ts';

/**
 * Checks this host, and the service: that of a stack on the data folder, that of the named gateway or scheduler, or the parts that run
 * here as services of their own.
 */
export async function examine(settings: Settings, environment: Environment): Promise<Finding[]> {
  const run = readRunFile(settings.dataDir);
  const isElsewhere = settings.url !== undefined || settings.scheduler !== undefined;
  const ports = run === null ? await checkPorts(settings) : { findings: [], gateway: false, scheduler: false };
  return [
    checkNode(),
    checkDataFolder(settings.dataDir),
    await checkDisk(settings.dataDir),
    ...(await checkQueue(settings.dataDir)),
    ...ports.findings.filter(({ verdict }) => verdict === 'ok' || !isElsewhere),
    await checkGpus(),
    await checkEngine(settings.containerSocket),
    ...(await checkContainerGpus(settings.containerSocket, environment)),
    ...(await checkStack({ settings, environment, run, ports })),
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

/** Whether containers can lose their GPUs to systemd; nothing on a host without an engine or without GPUs. */
async function checkContainerGpus(socket: string, { variables }: Environment): Promise<Finding[]> {
  const { containerGpus } = await import('../../agent/node-check.ts');
  const verdict = await containerGpus(socket, variables['CAPSTAN_CONTAINER_GPUS'] ?? '');
  if (verdict === undefined) return [];
  const name = 'GPUs in containers';
  return [verdict.isSafe ? ok(name, verdict.text) : warning(name, verdict.text, verdict.hint)];
}

interface StackFacts {
  readonly settings: Settings;
  readonly environment: Environment;
  readonly run: RunFile | null;
  readonly ports: OwnPorts;
}

async function checkStack({ settings, environment, run, ports }: StackFacts): Promise<Finding[]> {
  const ofScheduler = run !== null || settings.scheduler !== undefined || (ports.scheduler && settings.url === undefined);
  const isLoggedIn = settings.url !== undefined || (!ofScheduler && readLogin(environment) !== null);
  if (isLoggedIn && run === null) {
    const found = settings.scheduler === undefined ? [] : await checkSchedulers(settings);
    return [...found, ...(await checkService(settings, environment))];
  }
  if (!ofScheduler && !ports.gateway) {
    const hint = 'Start it with: capstan up. For parts elsewhere use --url or --scheduler.';
    return [{ name: 'stack', verdict: 'warning', text: 'no stack is running on this data folder', hint }];
  }
  const gateway = run === null && !ports.gateway && settings.httpPort === undefined ? [] : await checkGateway(httpBase(settings));
  return [...(ofScheduler ? await checkSchedulers(settings) : []), ...gateway];
}

async function checkSchedulers(settings: Settings): Promise<Finding[]> {
  const cluster = await readCluster(settings);
  return [...(await checkScheduler(settings)), ...(cluster === null ? [] : 'cells' in cluster ? checkCluster(cluster) : [cluster])];
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
  if (key === null)
    return [
      warning(
        name,
        `cannot check ${address}: no API key is set`,
        'Set SERVICE_API_KEY, or CAPSTAN_DATA_DIR to the scheduler’s data folder.',
      ),
    ];
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
      ? [ok(name, text), ...masterKey, ...nodes.filter((node) => node.connected).flatMap((node) => nodeFindings(node))]
      : [{ name, verdict: 'warning', text, hint: 'Jobs wait until an agent runs: capstan up, or capstan agent.' }, ...masterKey];
  } catch (error) {
    return [fault(name, messageOf(error), 'Its log is in the data folder, logs/scheduler.log.')];
  } finally {
    client.close();
  }
}

function nodeFindings({ name, inventory }: NodeInfo): Finding[] {
  if (inventory === undefined) return [];
  const { unreachableGateways, isolation } = inventory;
  // An agent of an earlier version reports no isolation.
  const isolated = isolation === undefined ? [] : isolationFindings(name, isolation);
  return [...gatewayFindings(name, unreachableGateways), ...deviceFindings(name, inventory), ...isolated];
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

function nearestExisting(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestExisting(dirname(path));
}
