/** The filter in the kernel, as bubblewrap loads it: what it refuses, and that interpreters run under it. */
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';

import test, { type ExecutionContext } from 'ava';

import { hasSeccompFilter, seccompFilter } from '../../agent/sandbox/seccomp/filter.ts';

const root = join(import.meta.dirname, '../..');

const SANDBOX = [
  '--ro-bind',
  '/',
  '/',
  '--dev',
  '/dev',
  '--proc',
  '/proc',
  '--tmpfs',
  '/tmp',
  // The interpreter, of a checkout below /tmp, too.
  '--ro-bind',
  root,
  root,
  '--unshare-pid',
  '--die-with-parent',
  '--cap-drop',
  'ALL',
];

const tried = spawnSync('bwrap', [...SANDBOX, 'python3', '--version'], { encoding: 'utf8' });
const without = !hasSeccompFilter(process.arch)
  ? `no filter for ${process.arch}`
  : tried.status === 0
    ? ''
    : `bubblewrap: ${tried.error?.message ?? tried.stderr.trim()}`;
const withBubblewrap = without === '' ? test : test.skip;
const skipped = without === '' ? '' : ` (skipped: ${without})`;

/** Runs a command with the filter; returns the JSON that it prints. */
async function runFiltered(t: ExecutionContext, command: readonly string[]): Promise<unknown> {
  if (!hasSeccompFilter(process.arch)) throw new Error(without);
  const child = spawn('bwrap', [...SANDBOX, '--seccomp', '3', '--', ...command], { stdio: ['ignore', 'pipe', 'pipe', 'pipe'] });
  t.teardown(() => child.kill('SIGKILL'));
  (child.stdio[3] as Writable).end(seccompFilter(process.arch));
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error('no pipes');
  const [out, errors] = await Promise.all([text(stdout), text(stderr)]);
  t.is(errors, '');
  return JSON.parse(out);
}

/** Calls that fail otherwise, or succeed, without a filter and without any capability; `1 << 32` is what the kernel drops. */
const REFUSED = `
import ctypes, errno, json, os, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
x64 = platform.machine() == 'x86_64'
def call(number, *args):
    ctypes.set_errno(0)
    value = libc.syscall(ctypes.c_long(number), *[ctypes.c_ulong(each & 0xffffffffffffffff) for each in args])
    return errno.errorcode[ctypes.get_errno()] if value == -1 else value
def opened(*args):
    try:
        socket.socket(*args).close()
        return 'opened'
    except OSError as error:
        return errno.errorcode[error.errno]
HIGH = 1 << 32
NEWUSER = 0x10000000
found = {
    'unshare user': call(272 if x64 else 97, NEWUSER),
    'clone user': call(56 if x64 else 220, NEWUSER | 17, 0, 0, 0, 0),
    'clone user, high': call(56 if x64 else 220, HIGH | NEWUSER | 17, 0, 0, 0, 0),
    'clone3': call(435, 0, 0),
    'ptrace': call(101 if x64 else 117, 0, 0, 0, 0),
    'keyctl': call(250 if x64 else 219, 0, -3, 0),
    'add_key': call(248 if x64 else 217, 0, 0, 0, 0, 0),
    'io_uring': call(425, 1, 0),
    'userfaultfd': call(323 if x64 else 282, -1),
    'process_vm_readv': call(310 if x64 else 270, os.getpid(), 0, 0, 0, 0, 0),
    'kcmp': call(312 if x64 else 272, os.getpid(), os.getpid(), 0, 0, 1),
    'open_by_handle_at': call(304 if x64 else 265, -1, 0, 0),
    'open_tree': call(428, -1, 0, 0),
    'TIOCSTI': call(16 if x64 else 29, -1, 0x5412, 0),
    'TIOCSTI, high': call(16 if x64 else 29, -1, HIGH | 0x5412, 0),
    'personality': call(135 if x64 else 92, 0x0040000),
    'unknown': call(999),
    'vsock': opened(40, socket.SOCK_STREAM),
    'alg': opened(38, socket.SOCK_SEQPACKET),
    'raw': opened(socket.AF_INET, socket.SOCK_RAW, 1),
    'packet': opened(17, socket.SOCK_RAW, 0),
    'packet of inet': opened(socket.AF_INET, 10, 0),
    'sctp': opened(socket.AF_INET, socket.SOCK_STREAM, 132),
    'sock_diag': opened(socket.AF_NETLINK, socket.SOCK_RAW, 4),
    'tcp': opened(socket.AF_INET, socket.SOCK_STREAM),
    'udp': opened(socket.AF_INET, socket.SOCK_DGRAM),
    'unix': opened(socket.AF_UNIX, socket.SOCK_STREAM),
    'route': opened(socket.AF_NETLINK, socket.SOCK_RAW, 0),
}
if x64: found['x32'] = call(0x40000000 | 39)
print(json.dumps(found))
`;

withBubblewrap(`the kernel refuses what the filter names, and allows the rest${skipped}`, async (t) => {
  t.deepEqual(await runFiltered(t, ['python3', '-c', REFUSED]), {
    'unshare user': 'EPERM',
    'clone user': 'EPERM',
    'clone user, high': 'EPERM',
    clone3: 'ENOSYS',
    ptrace: 'EPERM',
    keyctl: 'EPERM',
    add_key: 'EPERM',
    io_uring: 'ENOSYS',
    userfaultfd: 'EPERM',
    process_vm_readv: 'EPERM',
    kcmp: 'EPERM',
    open_by_handle_at: 'EPERM',
    open_tree: 'EPERM',
    TIOCSTI: 'EPERM',
    'TIOCSTI, high': 'EPERM',
    personality: 'EPERM',
    unknown: 'ENOSYS',
    vsock: 'EAFNOSUPPORT',
    alg: 'EAFNOSUPPORT',
    raw: 'EPERM',
    packet: 'EAFNOSUPPORT',
    'packet of inet': 'EPERM',
    sctp: 'EPROTONOSUPPORT',
    sock_diag: 'EPROTONOSUPPORT',
    tcp: 'opened',
    udp: 'opened',
    unix: 'opened',
    route: 'opened',
    ...(process.arch === 'x64' ? { x32: 'ENOSYS' } : {}),
  });
});

const PYTHON = `
import asyncio, concurrent.futures, json, multiprocessing, os, socket, subprocess, sys, tempfile, threading
def square(value): return value * value
def threads():
    found = []
    each = [threading.Thread(target=lambda: found.append(1)) for _ in range(8)]
    for one in each: one.start()
    for one in each: one.join()
    return len(found)
async def process():
    child = await asyncio.create_subprocess_exec('echo', 'async', stdout=-1)
    return (await child.communicate())[0].decode().strip()
def pools(method):
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        return list(pool.map(square, range(4)))
def fifo():
    path = tempfile.mktemp()
    os.mkfifo(path)
    os.mknod(path + '.file')
    return os.path.exists(path)
if __name__ == '__main__':
    print(json.dumps({
        'threads': threads(),
        'subprocess': subprocess.run(['echo', 'here'], capture_output=True, text=True).stdout.strip(),
        'asyncio': asyncio.run(process()),
        'fork': pools('fork'),
        'spawn': pools('spawn'),
        'names': len(socket.if_nameindex()) > 0,
        'fifo': fifo(),
    }))
`;

withBubblewrap(`python: threads, processes and pools run under the filter${skipped}`, async (t) => {
  const script = ['sh', '-c', 'printf "%s" "$1" > /tmp/main.py && exec python3 /tmp/main.py', 'sh', PYTHON];
  t.deepEqual(await runFiltered(t, script), {
    threads: 8,
    subprocess: 'here',
    asyncio: 'async',
    fork: [0, 1, 4, 9],
    spawn: [0, 1, 4, 9],
    names: true,
    fifo: true,
  });
});

const NODE = `
import { fork, execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { Worker } from 'node:worker_threads';
const message = (from) => new Promise((resolve, reject) => { from.once('message', resolve); from.once('error', reject); });
const worker = new Worker("require('node:worker_threads').parentPort.postMessage('thread')", { eval: true, execArgv: [] });
const child = fork('-', [], { execArgv: ['-e', "process.send('process')"] });
const [fromWorker, fromChild] = await Promise.all([message(worker), message(child)]);
console.log(JSON.stringify({
  worker: fromWorker,
  fork: fromChild,
  exec: execFileSync('echo', ['here'], { encoding: 'utf8' }).trim(),
  file: (await readFile('/proc/self/status', 'utf8')).match(/^Seccomp:\\t(\\d)/m)[1],
}));
`;

withBubblewrap(`node: worker threads, child processes and files run under the filter${skipped}`, async (t) => {
  t.deepEqual(await runFiltered(t, [process.execPath, '--input-type=module', '-e', NODE]), {
    worker: 'thread',
    fork: 'process',
    exec: 'here',
    // Filtering.
    file: '2',
  });
});
