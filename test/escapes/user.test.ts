/** Own user ids and no new privileges, without namespaces: other workers, the agent and its files are out of reach; the network is not. */
import { attackLevel } from './suite.ts';
import { rootTest } from './root-test.ts';

/** What only namespaces and a filter of system calls prevent. docs/security.md names them. */
const NOT_HELD = [
  ...['see other processes', 'see the temporary folder of the host', 'a socket in a folder'],
  ...['a port of loopback', 'a mapped port of loopback', 'the port of the scheduler', 'an address of the host', 'an abstract socket'],
  ...['fill /tmp', 'fill /dev/shm', 'fill the working folder', 'fork 400 times'],
  ...['a user namespace', 'the keyring', 'bpf', 'perf_event_open', 'userfaultfd', 'io_uring', 'type into a terminal'],
  ...["a socket of the kernel's ciphers", 'a socket of the hypervisor', 'open devices that are not assigned'],
];

rootTest('at level user no worker reaches another, the agent, or the files of either', async (t) => {
  await attackLevel(t, 'user', {
    rounds: [
      {
        network: () => 'host',
        succeed: ['a port of loopback', 'an abstract socket', 'see other processes'],
        refused: { allBut: NOT_HELD },
      },
    ],
    runsProgramOfHost: true,
    losesDecoy: false,
  });
});
