/**
 * A part that does as it is told: `node part.ts <behaviour>`.
 *   serve      says ready, ends on SIGTERM or when its channel closes
 *   refuse     says why it cannot, ends with 69
 *   removed    says ready, then that its node was removed, and ends
 *   stubborn   says ready, ignores SIGTERM and its channel
 *   crash      ends at once, with words on stderr
 *   log        says ready after one log line of each level
 */
const behaviour = process.argv[2] ?? 'serve';
const say = (message: object): void => void process.send?.(message);
const forever = setInterval(() => undefined, 1_000_000);

switch (behaviour) {
  case 'refuse':
    process.send?.({ type: 'failed', code: 'ADDRESS_IN_USE', message: '127.0.0.1:8080 is in use by another program' }, () =>
      process.exit(69),
    );
    break;
  case 'crash':
    process.stderr.write('no such luck\n');
    process.exit(1);
    break;
  case 'removed':
    process.send?.({ type: 'ready', address: '' }, () =>
      process.send?.({ type: 'failed', code: 'NODE_REMOVED', message: 'the node vm was removed' }, () => process.exit(77)),
    );
    break;
  case 'stubborn':
    process.on('SIGTERM', () => undefined);
    process.on('disconnect', () => undefined);
    say({ type: 'ready', address: '127.0.0.1:1' });
    break;
  default: {
    const end = (): void => {
      clearInterval(forever);
      if (process.connected) process.disconnect();
    };
    process.on('SIGTERM', end);
    process.on('SIGINT', () => undefined);
    process.on('disconnect', end);
    if (behaviour === 'log') {
      for (const level of [30, 40, 50])
        process.stderr.write(`${JSON.stringify({ level, msg: `line of ${level}`, err: { message: 'a cause' } })}\n`);
    }
    say({ type: 'ready', address: `127.0.0.1:${process.pid}` });
  }
}
