/**
 * The profile of system calls of worker containers, in the format of the engine. It replaces the engine's own, whose extent depends on
 * the engine's version: older ones let io_uring and sockets of the hypervisor through. As theirs, it allows what programs without
 * capabilities use and refuses the rest (EPERM).
 */

/** By subject. Names of other architectures, and those that an engine's library does not know yet, are skipped by it. */
const ALLOWED = {
  files: [
    ...['access', 'chdir', 'chmod', 'chown', 'chown32', 'close', 'close_range', 'copy_file_range', 'creat', 'dup', 'dup2', 'dup3'],
    ...['faccessat', 'faccessat2', 'fadvise64', 'fadvise64_64', 'arm_fadvise64_64', 'fallocate', 'fchdir', 'fchmod', 'fchmodat'],
    ...['fchmodat2', 'fchown', 'fchown32', 'fchownat', 'fcntl', 'fcntl64', 'fdatasync', 'flock', 'fstat', 'fstat64', 'fstatat64'],
    ...['fstatfs', 'fstatfs64', 'fsync', 'ftruncate', 'ftruncate64', 'futimesat', 'getcwd', 'getdents', 'getdents64', 'lchown'],
    ...['lchown32', 'link', 'linkat', 'lseek', '_llseek', 'lstat', 'lstat64', 'mkdir', 'mkdirat', 'mknod', 'mknodat'],
    ...['name_to_handle_at', 'newfstatat', 'open', 'openat', 'openat2', 'pread64', 'preadv', 'preadv2', 'pwrite64', 'pwritev'],
    ...['pwritev2', 'read', 'readahead', 'readlink', 'readlinkat', 'readv', 'rename', 'renameat', 'renameat2', 'rmdir', 'sendfile'],
    ...['sendfile64', 'splice', 'stat', 'stat64', 'statfs', 'statfs64', 'statx', 'symlink', 'symlinkat', 'sync', 'sync_file_range'],
    ...['arm_sync_file_range', 'syncfs', 'tee', 'truncate', 'truncate64', 'umask', 'unlink', 'unlinkat', 'utime', 'utimensat'],
    ...['utimensat_time64', 'utimes', 'vmsplice', 'write', 'writev'],
  ],
  attributes: [
    ...['fgetxattr', 'flistxattr', 'fremovexattr', 'fsetxattr', 'getxattr', 'lgetxattr', 'listxattr', 'llistxattr', 'lremovexattr'],
    ...['lsetxattr', 'removexattr', 'setxattr'],
  ],
  events: [
    ...['epoll_create', 'epoll_create1', 'epoll_ctl', 'epoll_pwait', 'epoll_pwait2', 'epoll_wait', 'eventfd', 'eventfd2'],
    ...['inotify_add_watch', 'inotify_init', 'inotify_init1', 'inotify_rm_watch', 'io_cancel', 'io_destroy', 'io_getevents'],
    ...['io_pgetevents', 'io_pgetevents_time64', 'io_setup', 'io_submit', '_newselect', 'poll', 'ppoll', 'ppoll_time64', 'pselect6'],
    ...['pselect6_time64', 'select', 'signalfd', 'signalfd4'],
  ],
  memory: [
    ...['brk', 'madvise', 'membarrier', 'memfd_create', 'memfd_secret', 'mincore', 'mlock', 'mlock2', 'mlockall', 'mmap', 'mmap2'],
    ...['mprotect', 'mremap', 'msync', 'munlock', 'munlockall', 'munmap', 'pkey_alloc', 'pkey_free', 'pkey_mprotect'],
    ...['process_mrelease', 'remap_file_pages'],
  ],
  // Of the container only: it sees no others.
  processes: [
    ...['arch_prctl', 'execve', 'execveat', 'exit', 'exit_group', 'fork', 'futex', 'futex_time64', 'futex_waitv', 'get_robust_list'],
    ...['get_thread_area', 'getcpu', 'getpgid', 'getpgrp', 'getpid', 'getppid', 'getpriority', 'getrlimit', 'getrusage', 'getsid'],
    ...['gettid', 'ioprio_get', 'ioprio_set', 'pidfd_open', 'pidfd_send_signal', 'pipe', 'pipe2', 'prctl', 'prlimit64', 'ptrace'],
    ...['process_vm_readv', 'process_vm_writev', 'restart_syscall', 'rseq', 'sched_getaffinity', 'sched_getattr', 'sched_getparam'],
    ...['sched_get_priority_max', 'sched_get_priority_min', 'sched_getscheduler', 'sched_rr_get_interval'],
    ...['sched_rr_get_interval_time64', 'sched_setaffinity', 'sched_setattr', 'sched_setparam', 'sched_setscheduler', 'sched_yield'],
    ...['set_robust_list', 'set_thread_area', 'set_tid_address', 'set_tls', 'cacheflush', 'setpgid', 'setpriority', 'setrlimit'],
    ...['setsid', 'sysinfo', 'times', 'ugetrlimit', 'uname', 'vfork', 'wait4', 'waitid', 'waitpid'],
  ],
  signals: [
    ...['alarm', 'kill', 'pause', 'rt_sigaction', 'rt_sigpending', 'rt_sigprocmask', 'rt_sigqueueinfo', 'rt_sigreturn'],
    ...['rt_sigsuspend', 'rt_sigtimedwait', 'rt_sigtimedwait_time64', 'rt_tgsigqueueinfo', 'sigaltstack', 'sigprocmask', 'sigreturn'],
    ...['tgkill', 'tkill'],
  ],
  time: [
    ...['clock_getres', 'clock_getres_time64', 'clock_gettime', 'clock_gettime64', 'clock_nanosleep', 'clock_nanosleep_time64'],
    ...['getitimer', 'gettimeofday', 'nanosleep', 'setitimer', 'time', 'timer_create', 'timer_delete', 'timer_getoverrun'],
    ...['timer_gettime', 'timer_gettime64', 'timer_settime', 'timer_settime64', 'timerfd_create', 'timerfd_gettime'],
    ...['timerfd_gettime64', 'timerfd_settime', 'timerfd_settime64'],
  ],
  // No `socketcall` of 32-bit programs: no filter can read its arguments.
  sockets: [
    ...['accept', 'accept4', 'bind', 'connect', 'getpeername', 'getsockname', 'getsockopt', 'listen', 'recv', 'recvfrom', 'recvmmsg'],
    ...['recvmmsg_time64', 'recvmsg', 'send', 'sendmmsg', 'sendmsg', 'sendto', 'setsockopt', 'shutdown', 'socketpair'],
  ],
  queues: [
    ...['ipc', 'mq_getsetattr', 'mq_notify', 'mq_open', 'mq_timedreceive', 'mq_timedreceive_time64', 'mq_timedsend'],
    ...['mq_timedsend_time64', 'mq_unlink', 'msgctl', 'msgget', 'msgrcv', 'msgsnd', 'semctl', 'semget', 'semop', 'semtimedop'],
    ...['semtimedop_time64', 'shmat', 'shmctl', 'shmdt', 'shmget'],
  ],
  // Without capabilities: to ids that a process has.
  ids: [
    ...['capget', 'capset', 'getegid', 'getegid32', 'geteuid', 'geteuid32', 'getgid', 'getgid32', 'getgroups', 'getgroups32'],
    ...['getresgid', 'getresgid32', 'getresuid', 'getresuid32', 'getuid', 'getuid32', 'setfsgid', 'setfsgid32', 'setfsuid'],
    ...['setfsuid32', 'setgid', 'setgid32', 'setgroups', 'setgroups32', 'setregid', 'setregid32', 'setresgid', 'setresgid32'],
    ...['setresuid', 'setresuid32', 'setreuid', 'setreuid32', 'setuid', 'setuid32'],
  ],
  other: ['getrandom', 'landlock_add_rule', 'landlock_create_ruleset', 'landlock_restrict_self', 'seccomp'],
} as const;

const ALLOW = 'SCMP_ACT_ALLOW';
const REFUSE = 'SCMP_ACT_ERRNO';
const ENOSYS = 38;
/** The kernel reads these arguments as 32 bits: what is above must not make another value of them. */
const LOW_HALF = 0xff_ff_ff_ff;
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const NAMESPACE_FLAGS = 0x7e_02_00_00;
/** AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. */
const FAMILIES = [1, 2, 10, 16];
/** Linux, 32-bit programs, an address space that is not random (debuggers), and the question which one is set. */
const PERSONALITIES = [0x0, 0x8, 0x2_00_00, 0x2_00_08, 0xff_ff_ff_ff];
/** Types into a terminal. */
const TIOCSTI = 0x54_12;
const ARCHITECTURES = { x64: ['SCMP_ARCH_X86_64', 'SCMP_ARCH_X86'], arm64: ['SCMP_ARCH_AARCH64', 'SCMP_ARCH_ARM'] } as const;

interface Condition {
  readonly index: number;
  readonly value: number;
  readonly valueTwo: number;
  readonly op: 'SCMP_CMP_MASKED_EQ';
}

interface Rule {
  readonly names: readonly string[];
  readonly action: string;
  readonly errnoRet?: number;
  readonly args?: readonly Condition[];
}

/** Returns the profile as JSON; undefined for an architecture that it does not know, where the engine's own stays. */
export function systemCallProfile(architecture: string = process.arch): string | undefined {
  if (architecture !== 'x64' && architecture !== 'arm64') return undefined;
  const rules: readonly Rule[] = [
    { names: Object.values(ALLOWED).flat(), action: ALLOW },
    { names: ['clone'], action: ALLOW, args: [equal(0, NAMESPACE_FLAGS, 0)] },
    // Its flags are in memory; callers then use clone.
    { names: ['clone3'], action: REFUSE, errnoRet: ENOSYS },
    ...FAMILIES.map((family): Rule => ({ names: ['socket'], action: ALLOW, args: [equal(0, LOW_HALF, family)] })),
    ...PERSONALITIES.map((value): Rule => ({ names: ['personality'], action: ALLOW, args: [equal(0, LOW_HALF, value)] })),
    ...differentFrom(TIOCSTI).map((condition): Rule => ({ names: ['ioctl'], action: ALLOW, args: [condition] })),
  ];
  return JSON.stringify({ defaultAction: REFUSE, architectures: ARCHITECTURES[architecture], syscalls: rules });
}

/** The argument's bits of the mask have this value. */
function equal(index: number, mask: number, value: number): Condition {
  return { index, value: mask, valueTwo: value, op: 'SCMP_CMP_MASKED_EQ' };
}

/** One condition for each bit in which the second argument can differ: there is no condition "not equal" for the low half. */
function differentFrom(command: number): Condition[] {
  return Array.from({ length: 32 }, (_, bit) => 2 ** bit).map((mask) => {
    const isSet = Math.floor(command / mask) % 2 === 1;
    return equal(1, mask, isSet ? 0 : mask);
  });
}
