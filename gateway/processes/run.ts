/** Runs a gateway as a part of a stack: in this process, or with several on one port. */
import type { GatewayConfig } from '../config.ts';
import type { GatewayProcesses } from './primary.ts';
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
  const started: { processes?: GatewayProcesses } = {};
  // A service manager that reloads the unit must not end it, also while it starts.
  process.on(RELOAD, () => {
    if (count === 1) process.stderr.write('SIGUSR2: the gateway has one process; restart it to replace it\n');
    else void started.processes?.reload();
  });
  if (count === 1) return (await import('../assembly/start.ts')).start(config);
  started.processes = await (await import('./primary.ts')).GatewayProcesses.start(config, count);
  return started.processes;
}
