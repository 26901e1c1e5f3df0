/** Runs a gateway as a part of a stack: in this process, or with several on one port. */
import type { GatewayConfig } from '../config.ts';
import { processCount } from './shares.ts';

/** Sent to replace the processes one by one. */
const RELOAD = 'SIGUSR2';

export interface RunningGateway {
  /** Address at which it serves, for example `http://127.0.0.1:8080`. */
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Starts the gateway.
 * @throws CapstanError ADDRESS_IN_USE, CONFIG
 */
export async function runGateway(config: GatewayConfig): Promise<RunningGateway> {
  const count = processCount(config);
  if (count === 1) {
    const { start } = await import('../assembly/start.ts');
    // A service manager that reloads the unit must not end it.
    process.on(RELOAD, () => process.stderr.write('SIGUSR2: the gateway has one process; restart it to replace it\n'));
    return start(config);
  }
  const { GatewayProcesses } = await import('./primary.ts');
  const processes = await GatewayProcesses.start(config, count);
  process.on(RELOAD, () => void processes.reload());
  return processes;
}
