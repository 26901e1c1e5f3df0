/** Looks at the GPUs of workers that are processes of this host, from each worker's own place. */
import { isAbsolute } from 'node:path';

import { isWithin } from '../../sandbox/bwrap/arguments.ts';
import { deviceNodes } from '../../sandbox/bwrap/devices.ts';
import type { Vantage } from '../../sandbox/launcher.ts';
import { lookInside } from '../../sandbox/levels/look-inside.ts';
import { GpuView, viewCommand } from '../gpu-view.ts';
import type { WorkerStart } from '../runtime.ts';

export interface ProcessGpuViewsOptions {
  /** nvidia-smi: a path, or a name on PATH. */
  readonly program: string;
  /** Paths at which workers see files of this host, beside /usr. */
  readonly paths: readonly string[];
  /** Device files of GPUs; absent: those of the driver. */
  readonly devices?: (uuids: readonly string[]) => readonly string[];
}

/** Not used by CUDA. */
const UNUSED = /\/nvidia-(?:modeset|uvm-tools)$/;

export class ProcessGpuViews {
  readonly #options: ProcessGpuViewsOptions;
  readonly #view = new GpuView();

  constructor(options: ProcessGpuViewsOptions) {
    this.#options = options;
  }

  /** Remembers the process of a worker with GPUs until it ends. */
  keep(
    { workerId, deviceUuids }: Pick<WorkerStart, 'workerId' | 'deviceUuids'>,
    process: { readonly vantage?: Vantage | undefined },
    exited: Promise<void>,
  ): void {
    if (deviceUuids.length === 0) return;
    const files = this.#filesOf(deviceUuids);
    this.#view.keep(workerId, {
      look: async (limitMs) => {
        const { vantage } = process;
        if (vantage === undefined) return undefined;
        return lookInside({
          vantage,
          limitMs,
          command: (root) =>
            viewCommand(
              files.map((file) => `${root}${file}`),
              this.#program,
            ),
        });
      },
      exited,
    });
  }

  /** As Runtime.gpuProblem. */
  problemOf(workerId: string): Promise<string | undefined> {
    return this.#view.problemOf(workerId);
  }

  /** Inside of a sandbox only files of this host may run: a worker can make its own at any other path. */
  get #program(): string {
    const { program, paths } = this.#options;
    const isHosts = !isAbsolute(program) || ['/usr', '/bin', '/opt', ...paths].some((above) => isWithin(program, above));
    return isHosts ? program : 'nvidia-smi';
  }

  #filesOf(uuids: readonly string[]): readonly string[] {
    const { devices = deviceNodes } = this.#options;
    try {
      return devices(uuids).filter((file) => !UNUSED.test(file));
    } catch {
      // The driver does not list the GPU: the inventory says so, and a sandbox does not start.
      return [];
    }
  }
}
