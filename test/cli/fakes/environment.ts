/** Prints the Python environment of the working folder, as JSON; ends with code 65 and the message when it cannot be made. */
import { discover } from '../../../compiler/discovery/discover.ts';
import { environmentFor } from '../../../compiler/build/python-environment.ts';
import { createTerminal } from '../../../terminal/terminal.ts';

const terminal = createTerminal({ out: process.stdout, err: process.stderr, colours: false });
const [cacheDir = ''] = process.argv.slice(2);
const lookUp = (): undefined => undefined;
try {
  terminal.data(JSON.stringify(await environmentFor(await discover(process.cwd(), lookUp), { cacheDir, lookUp }, terminal)));
} catch (error) {
  terminal.fail(error instanceof Error ? error.message : String(error));
  process.exitCode = 65;
}
