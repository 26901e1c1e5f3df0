/** Level `sandbox` refuses every attack, but for those by the network where a worker has the host's. */
import { attackLevel } from './suite.ts';
import { sandboxTest } from './root-test.ts';

const BY_NETWORK = [
  'a port of loopback',
  'a mapped port of loopback',
  'the port of the scheduler',
  'an address of the host',
  'an abstract socket',
];

sandboxTest('at level sandbox every attack is refused; with the network of the host those by network are not', async (t) => {
  await attackLevel(t, 'sandbox', {
    rounds: [
      {
        network: (networks) => (networks.includes('outbound') ? 'outbound' : 'none'),
        succeed: [],
        refused: { allBut: [] },
      },
      {
        network: () => 'host',
        attackers: ['python'],
        succeed: ['a port of loopback', 'an abstract socket'],
        refused: { allBut: BY_NETWORK },
      },
    ],
    runsProgramOfHost: false,
    losesDecoy: false,
  });
});
