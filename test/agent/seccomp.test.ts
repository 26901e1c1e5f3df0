/** The filter over every system call of both architectures, and over the arguments that decide. */
import { existsSync, readFileSync } from 'node:fs';

import test from 'ava';

import { assemble } from '../../agent/sandbox/seccomp/assembler.ts';
import { hasSeccompFilter, seccompFilter } from '../../agent/sandbox/seccomp/filter.ts';
import { syscallNumber, type Architecture, type Syscall } from '../../agent/sandbox/seccomp/syscalls.ts';
import { runFilter } from './bpf.ts';

const ALLOW = 0x7f_ff_00_00;
const KILL = 0x80_00_00_00;
const errno = (code: number): number => 0x00_05_00_00 | code;
const EPERM = errno(1);
const ENOSYS = errno(38);
const EPROTONOSUPPORT = errno(93);
const EAFNOSUPPORT = errno(97);

const I386 = 0x40_00_00_03;
const ARM = 0x40_00_00_28;
/** Written down from the kernel's headers, apart from the filter's own table. */
const EXPECTED = {
  x64: {
    audit: 0xc0_00_00_3e,
    denied: [
      // modify_ldt, pivot_root, _sysctl, adjtimex, chroot, acct, settimeofday, mount, umount2, swapon, swapoff, reboot
      154, 155, 156, 159, 161, 163, 164, 165, 166, 167, 168, 169,
      // sethostname, setdomainname, iopl, ioperm, create, init and delete_module, get_kernel_syms, query_module, quotactl, nfsservctl
      170, 171, 172, 173, 174, 175, 176, 177, 178, 179, 180,
      // ptrace, syslog, uselib, ustat, sysfs, vhangup, lookup_dcookie, clock_settime, kexec_load, add_key, request_key, keyctl
      101, 103, 134, 136, 139, 153, 212, 227, 246, 248, 249, 250,
      // unshare, perf_event_open, fanotify_init, open_by_handle_at, clock_adjtime, setns, process_vm_readv and writev, kcmp
      272, 298, 300, 304, 305, 308, 310, 311, 312,
      // finit_module, kexec_file_load, bpf, userfaultfd
      313, 320, 321, 323,
    ],
  },
  arm64: {
    audit: 0xc0_00_00_b7,
    denied: [
      // lookup_dcookie, umount2, mount, pivot_root, nfsservctl, chroot, vhangup, quotactl, acct, unshare, kexec_load
      18, 39, 40, 41, 42, 51, 58, 60, 89, 97, 104,
      // init and delete_module, clock_settime, syslog, ptrace, reboot, sethostname, setdomainname, settimeofday, adjtimex
      105, 106, 112, 116, 117, 142, 161, 162, 170, 171,
      // add_key, request_key, keyctl, swapon, swapoff, perf_event_open, fanotify_init, open_by_handle_at, clock_adjtime, setns
      217, 218, 219, 224, 225, 241, 262, 265, 266, 268,
      // process_vm_readv and writev, kcmp, finit_module, bpf, userfaultfd, kexec_file_load
      270, 271, 272, 273, 280, 282, 294,
    ],
  },
} as const;
/** open_tree … fspick, pidfd_getfd, mount_setattr, quotactl_fd, open_tree_attr: the same numbers everywhere. */
const DENIED_EVERYWHERE = [428, 429, 430, 431, 432, 433, 438, 442, 443, 467];
/** io_uring, clone3, statmount, listmount. */
const UNKNOWN_EVERYWHERE = [425, 426, 427, 435, 457, 458];
const NEWEST = 469;

for (const architecture of ['x64', 'arm64'] as const) {
  const { audit, denied } = EXPECTED[architecture];
  const program = seccompFilter(architecture);
  const run = (name: Syscall, ...args: readonly (number | bigint)[]): number => {
    const number = syscallNumber(architecture, name);
    if (number === undefined) throw new Error(`${architecture} has no ${name}`);
    return runFilter(program, { architecture: audit, number, args: args.map(BigInt) });
  };
  /** The same argument as a caller can give it: with anything in the half that the kernel drops. */
  const forms = (value: number): bigint[] => [BigInt(value), BigInt(value) | (1n << 32n), BigInt(value) | (0xff_ff_ff_ffn << 32n)];

  test(`${architecture}: exactly the listed calls are refused, without regard to their arguments`, (t) => {
    // By their arguments: checked below. With none, a socket of family 0 and a pair of it are refused.
    const byArguments = new Map([
      [syscallNumber(architecture, 'socket'), EAFNOSUPPORT],
      [syscallNumber(architecture, 'socketpair'), EAFNOSUPPORT],
    ]);
    for (let number = 0; number < 1_024; number += 1) {
      const expected =
        byArguments.get(number) ??
        ([...denied, ...DENIED_EVERYWHERE].includes(number)
          ? EPERM
          : number > NEWEST || UNKNOWN_EVERYWHERE.includes(number)
            ? ENOSYS
            : ALLOW);
      t.is(runFilter(program, { architecture: audit, number }), expected, `call ${number}`);
    }
  });

  test(`${architecture}: other interfaces of the processor end the process, x32 calls are unknown`, (t) => {
    for (const other of [I386, ARM, 0, EXPECTED[architecture === 'x64' ? 'arm64' : 'x64'].audit]) {
      t.is(runFilter(program, { architecture: other, number: 0 }), KILL);
    }
    for (const number of [0, 59, 165, 520]) t.is(runFilter(program, { architecture: audit, number: number | 0x40_00_00_00 }), ENOSYS);
    t.is(runFilter(program, { architecture: audit, number: -1 }), ENOSYS);
  });

  test(`${architecture}: clone makes threads and processes, but no namespace`, (t) => {
    const THREAD = 0x3d_0f_00;
    const SIGCHLD = 17;
    for (const flags of [SIGCHLD, THREAD, 0x41_00 | SIGCHLD, 0x80]) for (const form of forms(flags)) t.is(run('clone', form), ALLOW);
    for (const flag of [0x02_00_00, 0x02_00_00_00, 0x04_00_00_00, 0x08_00_00_00, 0x10_00_00_00, 0x20_00_00_00, 0x40_00_00_00]) {
      for (const form of forms(flag)) {
        t.is(run('clone', form), EPERM);
        t.is(run('clone', form | BigInt(SIGCHLD)), EPERM);
      }
    }
  });

  test(`${architecture}: ioctl types into no terminal, whatever is in the upper half of the command`, (t) => {
    for (const command of [0x54_12, 0x54_1c, 0x54_1d, 0x54_23]) for (const form of forms(command)) t.is(run('ioctl', 0, form), EPERM);
    // TCGETS, TIOCGWINSZ, FIONBIO, and one of NVIDIA's.
    for (const command of [0x54_01, 0x54_13, 0x54_21, 0xc0_20_46_2a]) for (const form of forms(command)) t.is(run('ioctl', 0, form), ALLOW);
  });

  test(`${architecture}: sockets are of Unix, the internet or netlink; none is raw`, (t) => {
    const [UNIX, INET, INET6, NETLINK] = [1, 2, 10, 16];
    const [STREAM, DGRAM, RAW, SEQPACKET, DCCP, PACKET, FLAGS] = [1, 2, 3, 5, 6, 10, 0x08_08_00];
    for (const family of [INET, INET6]) {
      for (const form of forms(family)) {
        for (const type of [STREAM, DGRAM, STREAM | FLAGS]) {
          for (const protocol of [0, 1, 6, 17, 58, 262]) t.is(run('socket', form, type, protocol), ALLOW);
          for (const protocol of [33, 115, 132, 255]) t.is(run('socket', form, type, protocol), EPROTONOSUPPORT);
        }
        for (const type of [RAW, RAW | FLAGS, SEQPACKET, DCCP, PACKET]) {
          for (const typeForm of forms(type)) t.is(run('socket', form, typeForm, 6), EPERM);
        }
      }
    }
    for (const type of [STREAM, DGRAM, SEQPACKET]) t.is(run('socket', UNIX, type, 0), ALLOW);
    for (const form of forms(0)) t.is(run('socket', NETLINK, RAW, form), ALLOW);
    t.is(run('socket', NETLINK, DGRAM, 15), ALLOW);
    for (const protocol of [4, 6, 9, 12, 16]) for (const form of forms(protocol)) t.is(run('socket', NETLINK, RAW, form), EPROTONOSUPPORT);
    for (let family = 0; family < 64; family += 1) {
      if (family === UNIX || family === INET || family === INET6 || family === NETLINK) continue;
      for (const form of forms(family)) t.is(run('socket', form, STREAM, 0), EAFNOSUPPORT, `family ${family}`);
    }
    for (const form of forms(UNIX)) t.is(run('socketpair', form, STREAM, 0), ALLOW);
    for (const family of [INET, 30, 38]) t.is(run('socketpair', family, STREAM, 0), EAFNOSUPPORT);
  });

  test(`${architecture}: mknod makes FIFOs and files, no devices; personality can only be asked`, (t) => {
    const calls: [Syscall, number][] =
      architecture === 'x64'
        ? [
            ['mknod', 1],
            ['mknodat', 2],
          ]
        : [['mknodat', 2]];
    for (const [call, index] of calls) {
      const withMode = (mode: bigint): number => run(call, ...Array.from({ length: index }, () => 0), mode);
      for (const kind of [0, 0o10_000, 0o100_000, 0o140_000]) for (const form of forms(kind | 0o600)) t.is(withMode(form), ALLOW);
      for (const kind of [0o20_000, 0o60_000]) {
        for (const form of forms(kind | 0o600)) t.is(withMode(form), EPERM);
        // The kernel reads 16 bits.
        t.is(withMode(BigInt(kind | 0xab_00_00)), EPERM);
      }
    }
    for (const form of [...forms(0), ...forms(0xff_ff_ff_ff)]) t.is(run('personality', form), ALLOW);
    for (const persona of [8, 0x04_00_00, 0x40_00_00]) for (const form of forms(persona)) t.is(run('personality', form), EPERM);
  });
}

test('other architectures have no filter', (t) => {
  t.true(hasSeccompFilter('x64'));
  t.true(hasSeccompFilter('arm64'));
  for (const other of ['ia32', 'riscv64', 'toString']) t.false(hasSeccompFilter(other));
});

test('the assembler refuses labels that are missing, behind or too far', (t) => {
  const jump = { kind: 'jump', test: 'equal', value: 1, yes: 'end' } as const;
  const end = { kind: 'label', name: 'end' } as const;
  const action = { kind: 'return', action: 0 } as const;
  const load = { kind: 'load', offset: 0 } as const;
  t.throws(() => assemble([jump, action]), { message: /label end is not defined/ });
  t.throws(() => assemble([end, jump, action]), { message: /-1 instructions away/ });
  t.notThrows(() => assemble([jump, ...Array.from({ length: 255 }, () => load), end, action]));
  t.throws(() => assemble([jump, ...Array.from({ length: 256 }, () => load), end, action]), { message: /256 instructions away/ });
});

const HEADERS: Record<Architecture, readonly string[]> = {
  x64: ['/usr/include/x86_64-linux-gnu/asm/unistd_64.h', '/usr/include/asm/unistd_64.h'],
  arm64: ['/usr/include/asm-generic/unistd.h'],
};
for (const architecture of ['x64', 'arm64'] as const) {
  const header = HEADERS[architecture].find((path) => existsSync(path));
  const ifThere = header === undefined ? test.skip : test;
  ifThere(
    `${architecture}: the numbers are those of the kernel's headers${header === undefined ? ' (skipped: no linux-libc-dev)' : ''}`,
    (t) => {
      const defined = new Map(
        [...readFileSync(header ?? '', 'utf8').matchAll(/^#define __NR_(\w+)\s+(\d+)$/gm)].map(([, name, number]) => [
          name,
          Number(number),
        ]),
      );
      t.true(defined.size > 250);
      const NAMES = [
        'clone',
        'clone3',
        'ioctl',
        'keyctl',
        'mount',
        'open_by_handle_at',
        'ptrace',
        'setns',
        'socket',
        'userfaultfd',
      ] as const;
      for (const name of NAMES) t.is(syscallNumber(architecture, name), defined.get(name), name);
    },
  );
}
