/**
 * The system calls that a sandboxed worker may not make. Namespaces, users and missing capabilities already refuse most of them;
 * the filter keeps a worker away from the kernel's code behind them, and from what needs no privilege (nested user namespaces,
 * tracing, keys, io_uring). Everything else is allowed, so that interpreters, numpy, CUDA and threads run as they are.
 *
 * Arguments that the kernel reads as 32 bits (clone's flags, ioctl's command, a socket's family) are compared by their low half
 * only: with the upper half compared as well, a caller could set bits there that the kernel ignores and pass the filter.
 */
import { assemble, type Instruction } from './assembler.ts';
import { NEWEST_SYSCALL, syscallNumber, type Architecture, type Syscall } from './syscalls.ts';

/** Refused with EPERM, as for want of a capability. */
const DENIED: readonly Syscall[] = [
  // Mounts and roots.
  ...(['mount', 'umount2', 'pivot_root', 'chroot', 'open_tree', 'open_tree_attr', 'move_mount', 'mount_setattr'] as const),
  ...(['fsopen', 'fsconfig', 'fsmount', 'fspick', 'open_by_handle_at'] as const),
  // Namespaces; clone is compared by its flags below.
  ...(['setns', 'unshare'] as const),
  // Other processes' memory, descriptors and state.
  ...(['ptrace', 'process_vm_readv', 'process_vm_writev', 'pidfd_getfd', 'kcmp'] as const),
  // Keys are not kept apart by namespaces.
  ...(['add_key', 'request_key', 'keyctl'] as const),
  // Large parts of the kernel that a function does not need.
  ...(['bpf', 'perf_event_open', 'userfaultfd', 'fanotify_init', 'lookup_dcookie', 'modify_ldt'] as const),
  // Modules and kernels.
  ...(['init_module', 'finit_module', 'delete_module', 'create_module', 'query_module', 'get_kernel_syms'] as const),
  ...(['kexec_load', 'kexec_file_load', 'uselib'] as const),
  // The machine: clock, names, swap, quotas, ports, log.
  ...(['settimeofday', 'clock_settime', 'clock_adjtime', 'adjtimex', 'sethostname', 'setdomainname', 'reboot'] as const),
  ...(['swapon', 'swapoff', 'acct', 'quotactl', 'quotactl_fd', 'iopl', 'ioperm', 'syslog', 'vhangup'] as const),
  ...(['nfsservctl', '_sysctl', 'sysfs', 'ustat'] as const),
];

/** Reported as unknown: callers then use what older kernels have. clone3's flags are in memory, where no filter can read them. */
const UNKNOWN: readonly Syscall[] = ['clone3', 'io_uring_setup', 'io_uring_enter', 'io_uring_register', 'statmount', 'listmount'];

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. (NEWTIME cannot be given to clone.) */
const NAMESPACE_FLAGS = 0x7e_02_00_00;
/** TIOCSTI types into a terminal, TIOCLINUX pastes into a console, TIOCSETD loads line disciplines, TIOCCONS takes the console. */
const DENIED_IOCTLS = [0x54_12, 0x54_1c, 0x54_23, 0x54_1d];
/** Linux, and the question which one is set. Others bring back flaws of old systems (an address space that is not random). */
const PERSONALITIES = [0, 0xff_ff_ff_ff];
const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;
const AF_NETLINK = 16;
/** The kernel reads the type from these bits; the others are flags. */
const SOCKET_TYPE_MASK = 0xf;
const SOCK_STREAM = 1;
const SOCK_DGRAM = 2;
/** Default, ICMP (echo by unprivileged users), TCP, UDP, ICMPv6, MPTCP. Others load modules (SCTP, DCCP, L2TP). */
const INTERNET_PROTOCOLS = [0, 1, 6, 17, 58, 262];
/** Interfaces and routes, device events. The rest lists sockets of the network or configures it. */
const NETLINK_PROTOCOLS = [0, 15];
/** Of a mode: the kind of file, of 16 bits. A worker makes FIFOs and files by mknod, but no devices. */
const FILE_KIND_MASK = 0xf0_00;
const DEVICE_KINDS = [0x20_00, 0x60_00];

const ERRNO = 0x00_05_00_00;
const ACTIONS = {
  allow: 0x7f_ff_00_00,
  /** A call by the 32-bit interface of the processor: its numbers mean other calls. Ends the process with SIGSYS. */
  kill: 0x80_00_00_00,
  EPERM: ERRNO | 1,
  ENOSYS: ERRNO | 38,
  EPROTONOSUPPORT: ERRNO | 93,
  EAFNOSUPPORT: ERRNO | 97,
} as const;
type Action = keyof typeof ACTIONS;

/** `AUDIT_ARCH_X86_64`, `AUDIT_ARCH_AARCH64`. */
const AUDIT_ARCHITECTURES = { x64: 0xc0_00_00_3e, arm64: 0xc0_00_00_b7 } as const;

const NUMBER: Instruction = { kind: 'load', offset: 0 };
const ARCHITECTURE: Instruction = { kind: 'load', offset: 4 };

/** Loads the low half of an argument; the architectures here are little-endian. */
function argument(index: number): Instruction {
  return { kind: 'load', offset: 16 + 8 * index };
}

function ifEqual(value: number, yes: string): Instruction {
  return { kind: 'jump', test: 'equal', value, yes };
}

function otherwise(action: Action): Instruction {
  // Every number is at least zero.
  return { kind: 'jump', test: 'atLeast', value: 0, yes: action };
}

/** Checks of calls that are refused by their arguments. Each ends with a jump to an action. */
const CHECKED: readonly { readonly call: Syscall; readonly check: readonly Instruction[] }[] = [
  { call: 'clone', check: [argument(0), { kind: 'jump', test: 'anyBit', value: NAMESPACE_FLAGS, yes: 'EPERM', no: 'allow' }] },
  { call: 'ioctl', check: [argument(1), ...DENIED_IOCTLS.map((command) => ifEqual(command, 'EPERM')), otherwise('allow')] },
  { call: 'personality', check: [argument(0), ...PERSONALITIES.map((value) => ifEqual(value, 'allow')), otherwise('EPERM')] },
  { call: 'mknod', check: deviceCheck(1) },
  { call: 'mknodat', check: deviceCheck(2) },
  { call: 'socketpair', check: [argument(0), ifEqual(AF_UNIX, 'allow'), otherwise('EAFNOSUPPORT')] },
  {
    call: 'socket',
    check: [
      argument(0),
      ifEqual(AF_UNIX, 'allow'),
      ifEqual(AF_INET, 'internet'),
      ifEqual(AF_INET6, 'internet'),
      ifEqual(AF_NETLINK, 'netlink'),
      otherwise('EAFNOSUPPORT'),
      { kind: 'label', name: 'netlink' },
      argument(2),
      ...NETLINK_PROTOCOLS.map((protocol) => ifEqual(protocol, 'allow')),
      otherwise('EPROTONOSUPPORT'),
      { kind: 'label', name: 'internet' },
      argument(1),
      { kind: 'and', mask: SOCKET_TYPE_MASK },
      ifEqual(SOCK_STREAM, 'protocol'),
      ifEqual(SOCK_DGRAM, 'protocol'),
      // Raw and packet sockets among them.
      otherwise('EPERM'),
      { kind: 'label', name: 'protocol' },
      argument(2),
      ...INTERNET_PROTOCOLS.map((protocol) => ifEqual(protocol, 'allow')),
      otherwise('EPROTONOSUPPORT'),
    ],
  },
];

function deviceCheck(mode: number): readonly Instruction[] {
  return [argument(mode), { kind: 'and', mask: FILE_KIND_MASK }, ...DEVICE_KINDS.map((kind) => ifEqual(kind, 'EPERM')), otherwise('allow')];
}

/** Returns whether there is a filter for this architecture, as Node names it (`process.arch`). */
export function hasSeccompFilter(architecture: string): architecture is Architecture {
  return Object.hasOwn(AUDIT_ARCHITECTURES, architecture);
}

/** Returns the filter as the kernel (and `bwrap --seccomp`) takes it: an array of `struct sock_filter`. */
export function seccompFilter(architecture: Architecture): Uint8Array {
  const ifCalled = (name: Syscall, label: string): Instruction[] => {
    const number = syscallNumber(architecture, name);
    return number === undefined ? [] : [ifEqual(number, label)];
  };
  const checks = CHECKED.filter(({ call }) => syscallNumber(architecture, call) !== undefined);
  return assemble([
    ARCHITECTURE,
    { kind: 'jump', test: 'equal', value: AUDIT_ARCHITECTURES[architecture], no: 'kill' },
    NUMBER,
    { kind: 'jump', test: 'atLeast', value: NEWEST_SYSCALL + 1, yes: 'ENOSYS' },
    ...checks.flatMap(({ call }) => ifCalled(call, call)),
    ...UNKNOWN.flatMap((call) => ifCalled(call, 'ENOSYS')),
    ...DENIED.flatMap((call) => ifCalled(call, 'EPERM')),
    otherwise('allow'),
    ...checks.flatMap(({ call, check }): Instruction[] => [{ kind: 'label', name: call }, ...check]),
    ...Object.entries(ACTIONS).flatMap(([name, action]): Instruction[] => [
      { kind: 'label', name },
      { kind: 'return', action },
    ]),
  ]);
}
