/** Level `gvisor` refuses every attack on the host; what concerns gVisor's own kernel only is that kernel's matter. */
import { attackLevel } from './suite.ts';
import { gvisorTest } from './root-test.ts';

/**
 * gVisor's kernel answers these, and nothing of the host is behind them: its namespaces, its processes (their memory is the worker's), its
 * devices, its io_uring. Debian's version does not start with the engine's filter of system calls (`--oci-seccomp`).
 */
const OWN_KERNEL = [
  ...['fork 400 times', 'open devices that are not assigned', 'a mount namespace', 'a user namespace', 'a network namespace'],
  ...['its own OOM score', 'io_uring'],
];

/** One attacker: the list takes half a minute in gVisor for a Python handler and several minutes for a Node handler, which starts more processes. */
gvisorTest('at level gvisor every attack on the host is refused', async (t) => {
  await attackLevel(t, 'gvisor', {
    rounds: [{ network: () => 'outbound', attackers: ['python'], succeed: [], refused: { allBut: OWN_KERNEL } }],
    runsProgramOfHost: false,
    losesDecoy: false,
  });
});
