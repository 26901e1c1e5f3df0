/** Runs as a process of its own (nvidia-probe.ts): prints what node-nvidia-smi makes of the full report, as JSON. */
import { createRequire } from 'node:module';

/** Its error is an Error of its own, or simply what nvidia-smi wrote to stderr. */
type Report = (callback: (error: Error | string | null, data?: unknown) => void) => void;

const report = createRequire(import.meta.url)('node-nvidia-smi') as Report;

report((error, data) => {
  if (error === null) {
    process.stdout.write(JSON.stringify(data));
    return;
  }
  process.stderr.write(typeof error === 'string' ? error : error.message);
  process.exitCode = 1;
});
