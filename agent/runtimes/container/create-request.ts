/** The request that creates a worker's container, with its permissions and limits. */
import type Docker from 'dockerode';

import { HOST_NAME, LABELS, WORKER_HOST } from './layout.ts';

/** How a container gets its GPUs (CAPSTAN_CONTAINER_GPUS). */
export type GpuAccess = 'nvidia' | 'cdi' | 'environment';

/** Settings of all containers of a node. */
export interface ContainerRules {
  /** Of the engine's runtimes; absent: its default. */
  readonly runtime?: string | undefined;
  readonly gpus: GpuAccess;
  /** Limit of processes and threads in one container. */
  readonly pids: number;
  /** Size of /tmp where the root is read-only, bytes; its contents count as the container's memory. */
  readonly tmpBytes: number;
  /** Size of /dev/shm, bytes. */
  readonly shmBytes: number;
}

export interface ContainerSpec {
  readonly image: string;
  /** Absent: the image's default. */
  readonly entrypoint: readonly string[] | undefined;
  /** Arguments of the entry point; absent: the image's default. */
  readonly command: readonly string[] | undefined;
  /** Readable by everyone with access to the engine. */
  readonly env: Readonly<Record<string, string>>;
  readonly deviceUuids: readonly string[];
  /** Bytes; 0 for no limit. */
  readonly memoryBytes: number;
  /** Thousandths of a core; 0 for no limit. */
  readonly cpuMillis: number;
  /** Read-only; path on the host to path in the container. */
  readonly mounts: readonly (readonly [from: string, to: string])[];
  readonly readOnlyRoot: boolean;
  /** `uid:gid`; absent: the image's user. */
  readonly user?: string | undefined;
  readonly network: string;
  /** Address of `host.docker.internal` in the container; absent when the container cannot reach this host. */
  readonly hostAddress: string | undefined;
  /** Ports published to this host only, at host ports chosen by the engine; none on the host's network. */
  readonly published?: readonly number[];
  /** Runs the engine's own init process. */
  readonly init: boolean;
  readonly labels: Readonly<Record<keyof typeof LABELS, string>>;
}

/** CUDA images set this to `all`, and an engine whose default runtime is NVIDIA's honours it. */
const NO_DEVICES = 'void';

/** A request of the Docker Engine API (ContainerCreate, version 1.40 and newer). `seccomp`: a profile other than the engine's, JSON. */
export function createRequest(order: ContainerSpec, rules: ContainerRules, seccomp?: string): Docker.ContainerCreateOptions {
  const { deviceUuids, memoryBytes, cpuMillis, readOnlyRoot, network } = order;
  const published = publishing(order.published ?? []);
  return {
    Image: order.image,
    ...(order.entrypoint === undefined ? {} : { Entrypoint: [...order.entrypoint] }),
    ...(order.command === undefined ? {} : { Cmd: [...order.command] }),
    Env: Object.entries(commonEnv(order)).map(([name, value]) => `${name}=${value}`),
    Labels: labelsOf(order),
    ...(network === 'none' ? { Hostname: WORKER_HOST } : {}),
    ...(order.user === undefined ? {} : { User: order.user }),
    // The image's health check would run commands beside the worker; the worker's channel is the health check here.
    Healthcheck: { Test: ['NONE'] },
    ...published.exposed,
    AttachStdin: false,
    AttachStdout: true,
    AttachStderr: true,
    OpenStdin: false,
    Tty: false,
    HostConfig: {
      Mounts: order.mounts.map(([Source, Target]) => ({ Type: 'bind', Source, Target, ReadOnly: true })),
      ReadonlyRootfs: readOnlyRoot,
      ...(readOnlyRoot ? { Tmpfs: { '/tmp': `rw,exec,nosuid,nodev,mode=1777,size=${rules.tmpBytes}` } } : {}),
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges', ...(seccomp === undefined ? [] : [`seccomp=${seccomp}`])],
      PidsLimit: rules.pids,
      // Swap would hide that a worker exceeds its memory.
      ...(memoryBytes > 0 ? { Memory: memoryBytes, MemorySwap: memoryBytes } : {}),
      ...(cpuMillis > 0 ? { NanoCpus: cpuMillis * 1_000_000 } : {}),
      ShmSize: rules.shmBytes,
      Ulimits: [{ Name: 'core', Soft: 0, Hard: 0 }],
      ...(rules.runtime === undefined ? {} : { Runtime: rules.runtime }),
      NetworkMode: network,
      ExtraHosts: hostsOf(order),
      ...published.bound,
      DeviceRequests: deviceRequests(deviceUuids, rules.gpus),
      Init: order.init,
      // The agent keeps the lines; the engine's own copies would grow without limit.
      LogConfig: { Type: 'none', Config: {} },
      RestartPolicy: { Name: 'no' },
    },
  };
}

/** Environment that programs of the container get in addition to the image's, with every engine. */
export function commonEnv({ env, deviceUuids }: ContainerSpec): Record<string, string> {
  return { ...env, NVIDIA_VISIBLE_DEVICES: deviceUuids.join(',') || NO_DEVICES };
}

export function labelsOf({ labels }: ContainerSpec): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).map(([key, value]) => [LABELS[key as keyof typeof LABELS], value]));
}

/**
 * More lines of /etc/hosts, `name:address`. Engines add a line for the container's own name where it has a network; without
 * one, programs find their own address by this.
 */
export function hostsOf({ network, hostAddress }: Pick<ContainerSpec, 'network' | 'hostAddress'>): string[] {
  return [
    ...(network === 'none' ? [`${WORKER_HOST}:127.0.0.1`] : []),
    ...(hostAddress === undefined ? [] : [`${HOST_NAME}:${hostAddress}`]),
  ];
}

/** On the loopback address: clients reach an endpoint through a gateway, with a key. */
function publishing(ports: readonly number[]): { exposed: Docker.ContainerCreateOptions; bound: Docker.HostConfig } {
  if (ports.length === 0) return { exposed: {}, bound: {} };
  const each = <T>(value: T): Record<string, T> => Object.fromEntries(ports.map((port) => [`${port}/tcp`, value]));
  return {
    exposed: { ExposedPorts: each({}) },
    bound: {
      PortBindings: each([{ HostIp: '127.0.0.1', HostPort: '' }]),
      // Without capabilities not even root could listen on a low port such as 80.
      Sysctls: { 'net.ipv4.ip_unprivileged_port_start': '0' },
    },
  };
}

function deviceRequests(uuids: readonly string[], access: GpuAccess): Docker.DeviceRequest[] {
  if (uuids.length === 0 || access === 'environment') return [];
  if (access === 'cdi') return [{ Driver: 'cdi', DeviceIDs: uuids.map((uuid) => `nvidia.com/gpu=${uuid}`) }];
  return [{ Driver: 'nvidia', DeviceIDs: [...uuids], Capabilities: [['gpu']] }];
}
