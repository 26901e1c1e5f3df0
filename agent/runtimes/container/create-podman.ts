/**
 * Creates the container of create-request.ts through Podman's own API (libpod 4.0 and newer). Podman's translation of a
 * Docker request has no devices (it drops DeviceRequests silently) and raises unset limits beyond what the host allows.
 */
import { readFileSync } from 'node:fs';

import { commonEnv, type ContainerSpec, type ContainerRules, type GpuAccess, hostsOf, labelsOf } from './create-request.ts';
import { WORKER_HOST } from './layout.ts';

export const PODMAN_CREATE = '/v4.0.0/libpod/containers/create';

/** Docker's name for Podman's default network. */
const DEFAULT_BRIDGE = 'bridge';
const CPU_PERIOD_US = 100_000;
/** Podman's default limit of open files. */
const MAX_FILES = 1_048_576;

/** A request of Podman's API (SpecGenerator). */
export function podmanRequest(order: ContainerSpec, rules: ContainerRules): Readonly<Record<string, unknown>> {
  const { image, entrypoint, command, memoryBytes, cpuMillis, readOnlyRoot, network, published = [] } = order;
  const binds = order.mounts.map(([source, destination]) => ({ type: 'bind', source, destination, options: ['ro', 'rbind'] }));
  const tmpOptions = ['rw', 'exec', 'nosuid', 'nodev', 'mode=1777', `size=${rules.tmpBytes}`];
  return {
    image,
    ...(entrypoint === undefined ? {} : { entrypoint }),
    ...(command === undefined ? {} : { command }),
    env: commonEnv(order),
    labels: labelsOf(order),
    ...(order.user === undefined ? {} : { user: order.user }),
    healthconfig: { Test: ['NONE'] },
    mounts: [...binds, ...(readOnlyRoot ? [{ type: 'tmpfs', destination: '/tmp', options: tmpOptions }] : [])],
    read_only_filesystem: readOnlyRoot,
    cap_drop: ['ALL'],
    no_new_privileges: true,
    resource_limits: {
      pids: { limit: rules.pids },
      // Swap would hide that a worker exceeds its memory.
      ...(memoryBytes > 0 ? { memory: { limit: memoryBytes, swap: memoryBytes } } : {}),
      ...(cpuMillis > 0 ? { cpu: { period: CPU_PERIOD_US, quota: (cpuMillis * CPU_PERIOD_US) / 1_000 } } : {}),
    },
    ...(rules.runtime === undefined ? {} : { oci_runtime: rules.runtime }),
    shm_size: rules.shmBytes,
    r_limits: limits(),
    ...networkOf(network),
    ...(network === 'none' ? { hostname: WORKER_HOST } : {}),
    hostadd: hostsOf(order),
    portmappings: published.map((port) => ({ container_port: port, host_ip: '127.0.0.1', protocol: 'tcp' })),
    // Without capabilities not even root could listen on a low port such as 80.
    ...(published.length === 0 ? {} : { sysctl: { 'net.ipv4.ip_unprivileged_port_start': '0' } }),
    devices: deviceNames(order.deviceUuids, rules.gpus).map((path) => ({ path })),
    init: order.init,
    log_configuration: { driver: 'none' },
    restart_policy: 'no',
  };
}

function networkOf(network: string): Readonly<Record<string, unknown>> {
  if (network === 'none' || network === 'host') return { netns: { nsmode: network } };
  return { netns: { nsmode: 'bridge' }, ...(network === DEFAULT_BRIDGE ? {} : { networks: { [network]: {} } }) };
}

/** Podman accepts devices by their CDI names only. */
function deviceNames(uuids: readonly string[], access: GpuAccess): string[] {
  return access === 'environment' ? [] : uuids.map((uuid) => `nvidia.com/gpu=${uuid}`);
}

/**
 * Podman would request fixed limits, which a host without the right to raise limits refuses. `pids` limits the
 * processes; this limit counts a user's processes on the whole host, so it is set to the maximum.
 */
function limits(): { readonly type: string; readonly soft: number; readonly hard: number }[] {
  const most = { nofile: Math.min(MAX_FILES, ownLimit('Max open files')), nproc: Math.min(ownLimit('Max processes'), mostProcesses()) };
  return Object.entries({ core: 0, ...most }).map(([type, limit]) => ({ type, soft: limit, hard: limit }));
}

/** Returns this process's hard limit with the given name of proc(5). */
function ownLimit(name: string): number {
  const line = readFileSync('/proc/self/limits', 'utf8')
    .split('\n')
    .find((each) => each.startsWith(name));
  const [, hard] = line?.slice(name.length).trim().split(/\s+/) ?? [];
  return Number(hard) || Infinity;
}

function mostProcesses(): number {
  return Number(readFileSync('/proc/sys/kernel/pid_max', 'utf8'));
}
