/** A command that is told to end, with a clock on which a second passes between two signals. SIGUSR2 ends it with 0. */
import { endWish } from '../../../terminal/end-signals.ts';

let now = 0;
performance.now = () => (now += 1_000);
process.on('SIGUSR2', () => process.exit(0));
// Signals alone keep no process.
setInterval(() => undefined, 60_000);
const end = endWish();
console.log('runs');
await end.wished;
if (process.argv[2] === 'ended') end.release();
console.log('told');
