/** Level `container` refuses every attack; on a bridge of the engine without rules, the host's own addresses are reached. */
import { attackLevel } from './suite.ts';
import { containerTest } from './root-test.ts';

/** A container has no threads of the agent's own hosts. */
const ATTACKERS = ['python', 'node', 'command'];

containerTest('at level container every attack is refused; on a bridge without rules the host is reached', async (t) => {
  await attackLevel(t, 'container', {
    rounds: [
      { network: () => 'outbound', attackers: ATTACKERS, succeed: [], refused: { allBut: [] } },
      {
        network: () => 'host',
        attackers: ['python'],
        succeed: ['an address of the host'],
        refused: { allBut: ['an address of the host'] },
      },
    ],
    runsProgramOfHost: false,
    losesDecoy: false,
  });
});
