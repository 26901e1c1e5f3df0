/** What workers without isolation can do: a refusal at the other levels means something only because the same attack works here. */
import { attackLevel } from './suite.ts';
import { rootTest } from './root-test.ts';

rootTest('at level none the attacks work, and nothing that they start outlives its worker', async (t) => {
  await attackLevel(t, 'none', {
    rounds: [
      {
        network: () => 'host',
        succeed: [
          ...["read the agent's identity", "list the agent's data folder", "read the scheduler's master key", 'read /etc/shadow'],
          ...["read a file through the agent's root", "read a file through the agent's folder", "list the agent's descriptors"],
          ...['see the temporary folder of the host', 'read shared memory of another', 'environment of the agent'],
          ...['environment of the victim', 'environment of any process', 'see other processes', 'write memory of the victim'],
          ...['process_vm_readv', 'signal the agent'],
          ...['limits of the victim', 'priority of the victim', 'write its own build', 'add to its own build'],
          ...[
            'write the build of the victim',
            'write a file of the system',
            'a port of loopback',
            'the port of the scheduler',
            'an address of the host',
          ],
          ...['an abstract socket', 'a socket in a folder', 'fill /tmp', 'fill the working folder', 'become root', 'capabilities'],
        ],
        refused: { only: ['the worker API without a token', 'descriptors that it inherited', 'variables that it inherited'] },
      },
    ],
    runsProgramOfHost: true,
    losesDecoy: true,
  });
});
