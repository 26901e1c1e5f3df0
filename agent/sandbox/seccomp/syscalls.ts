/** Numbers of the system calls that the filter names, as Linux gives them: x86_64, arm64; undefined: the architecture has no such call. */

export type Architecture = 'x64' | 'arm64';

const NUMBERS = {
  _sysctl: [156, undefined],
  acct: [163, 89],
  add_key: [248, 217],
  adjtimex: [159, 171],
  bpf: [321, 280],
  chroot: [161, 51],
  clock_adjtime: [305, 266],
  clock_settime: [227, 112],
  clone: [56, 220],
  clone3: [435, 435],
  create_module: [174, undefined],
  delete_module: [176, 106],
  fanotify_init: [300, 262],
  finit_module: [313, 273],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fsopen: [430, 430],
  fspick: [433, 433],
  get_kernel_syms: [177, undefined],
  init_module: [175, 105],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  io_uring_setup: [425, 425],
  ioctl: [16, 29],
  ioperm: [173, undefined],
  iopl: [172, undefined],
  kcmp: [312, 272],
  kexec_file_load: [320, 294],
  kexec_load: [246, 104],
  keyctl: [250, 219],
  listmount: [458, 458],
  lookup_dcookie: [212, 18],
  mknod: [133, undefined],
  mknodat: [259, 33],
  modify_ldt: [154, undefined],
  mount: [165, 40],
  mount_setattr: [442, 442],
  move_mount: [429, 429],
  nfsservctl: [180, 42],
  open_by_handle_at: [304, 265],
  open_tree: [428, 428],
  open_tree_attr: [467, 467],
  perf_event_open: [298, 241],
  personality: [135, 92],
  pidfd_getfd: [438, 438],
  pivot_root: [155, 41],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  ptrace: [101, 117],
  query_module: [178, undefined],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  reboot: [169, 142],
  request_key: [249, 218],
  setdomainname: [171, 162],
  sethostname: [170, 161],
  setns: [308, 268],
  settimeofday: [164, 170],
  socket: [41, 198],
  socketpair: [53, 199],
  statmount: [457, 457],
  swapoff: [168, 225],
  swapon: [167, 224],
  sysfs: [139, undefined],
  syslog: [103, 116],
  umount2: [166, 39],
  unshare: [272, 97],
  uselib: [134, undefined],
  userfaultfd: [323, 282],
  ustat: [136, undefined],
  vhangup: [153, 58],
} as const satisfies Record<string, readonly [x64: number | undefined, arm64: number | undefined]>;

export type Syscall = keyof typeof NUMBERS;

/**
 * The newest call this table knows of (Linux 6.17's file_setattr). All architectures share the numbers from 424 on, and x86_64's
 * calls of the x32 ABI have bit 30 set: they are above it, too.
 */
export const NEWEST_SYSCALL = 469;

/** Returns the call's number; undefined when the architecture does not have it. */
export function syscallNumber(architecture: Architecture, name: Syscall): number | undefined {
  return NUMBERS[name][architecture === 'x64' ? 0 : 1];
}
