/** Which processes an attempt started is told by the clock of their starts, however long the host's own start took. */
import { execFile } from 'node:child_process';
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

const attempts = pathToFileURL(join(import.meta.dirname, '../../agent/runtimes/hosted/attempt-processes.ts')).href;

/** What a module has started stays; what an attempt has started ends with it. */
const SCRIPT = `
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { AttemptProcesses } from '${attempts}';
const processes = AttemptProcesses.of({ maxConcurrency: 1, processScope: 'marked', workFolder: '' });
const start = () => spawn('sleep', ['60'], { stdio: 'ignore' });
const daemon = start();
await pause(100);
processes.begin();
const own = start();
await pause(100);
await processes.end();
await pause(50);
console.log(daemon.exitCode === null && daemon.signalCode === null, own.signalCode);
daemon.kill('SIGKILL');
`;

test('a host that took seconds to start ends nothing that was there before the attempt', async (t) => {
  // The kernel counts the start of a process from its fork, Node its own from its first line.
  const shell = 'sleep 3; exec "$0" --input-type=module --disable-warning=ExperimentalWarning -e "$1"';
  const { stdout } = await promisify(execFile)('sh', ['-c', shell, process.execPath, SCRIPT]);
  t.is(stdout.trim(), 'true SIGKILL');
});
