/** Runs as a separate process (nvidia-probe.ts): prints node-nvidia-smi's parse of the full report as JSON. */
import { createRequire } from 'node:module';

/** The library rejects with an Error, or with the plain stderr text of nvidia-smi. */
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
