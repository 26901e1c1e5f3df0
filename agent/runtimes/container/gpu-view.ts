/**
 * Whether GPUs can be used from inside of a container. systemd can take them from a running one (docs/gpu-hosts.md) while the host sees
 * nothing: rules for devices belong to the container's control group, so only a process in it is refused. The engine starts one there.
 */
import type { Look } from './worker-container.ts';

export type LookInside = (command: readonly string[], limitMs: number) => Promise<Look | undefined>;

interface Contained {
  look(command: readonly string[], limitMs: number): Promise<Look | undefined>;
  readonly exited: Promise<void>;
}

/** Exit code of the script when the GPUs are lost. */
export const LOST = 77;
const LIMIT_MS = 8_000;
/**
 * Opens the devices, then asks nvidia-smi where the image has it. Only errors of access count: an image can lack the library, and a
 * driver that was changed is the host's matter.
 */
export const SCRIPT = `for file in /dev/nvidiactl /dev/nvidia[0-9]*; do
  [ -c "$file" ] || continue
  ( : <"$file" ) 2>/dev/null || { echo "$file cannot be opened"; exit ${LOST}; }
done
command -v nvidia-smi >/dev/null 2>&1 || exit 0
said=$(nvidia-smi -L 2>&1)
case "$said" in
*'Failed to initialize NVML: Unknown Error'*|*'Failed to initialize NVML: Insufficient Permissions'*) echo "$said"; exit ${LOST};;
esac
exit 0`;

export class GpuView {
  readonly #containers = new Map<string, Contained>();
  /** Workers whose look has not ended. */
  readonly #looking = new Set<string>();

  /** Remembers the container of a worker until it ends; returns it. */
  keep<T extends Contained>(workerId: string, container: T): T {
    this.#containers.set(workerId, container);
    void container.exited.then(() => {
      if (this.#containers.get(workerId) === container) this.#containers.delete(workerId);
    });
    return container;
  }

  /** As Runtime.gpuProblem. One look at a time: one that hangs is not repeated. */
  async problemOf(workerId: string): Promise<string | undefined> {
    const container = this.#containers.get(workerId);
    if (container === undefined || this.#looking.has(workerId)) return undefined;
    this.#looking.add(workerId);
    try {
      const seen = await container.look(['/bin/sh', '-c', SCRIPT], LIMIT_MS);
      if (seen?.exitCode !== LOST) return undefined;
      const [said = ''] = seen.output.split(/[\r\n]/);
      return `its GPU cannot be opened from inside: ${said}`;
    } finally {
      this.#looking.delete(workerId);
    }
  }
}
