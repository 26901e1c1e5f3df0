/** Who attacks: a handler in each runtime on the host, and a command of a release. All run the same list of attacks. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { ReleaseSpec } from '../../proto/gen/capstan/v1/nodes.ts';

const PROGRAMS = {
  'attacks.py': await readFile(join(import.meta.dirname, 'attacks.py'), 'utf8'),
  'system_attacks.py': await readFile(join(import.meta.dirname, 'system_attacks.py'), 'utf8'),
  'build.txt': 'as it was deployed',
};

/** The attacks from within the process that runs handlers: with the interpreter's own means, and with its descriptors. */
const PYTHON = `
import attacks
import os
import time

def attack(input):
    for fd, text in input.get('writes', []):
        os.write(fd, bytes.fromhex(text))
    if 'writes' in input:
        time.sleep(600)
    return attacks.run(input)
`;

const JAVASCRIPT = `
import { spawn } from 'node:child_process';
import { readFileSync, readdirSync, openSync, closeSync, writeSync } from 'node:fs';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

const secretOf = (targets, name) => targets.reversed[name].split('').toReversed().join('');
function read(path, secret) {
  if (!readFileSync(path, 'latin1').includes(secret)) throw new Error('it holds something else');
  return path;
}
function reach(options) {
  return new Promise((resolve, reject) => {
    const client = connect(options, () => { client.destroy(); resolve('connected'); });
    client.once('error', reject);
  });
}
const DIRECT = {
  "read the agent's identity": (t) => read(t.identityFile, 'nodeSecret'),
  "list the agent's data folder": (t) => readdirSync(t.dataDir + '/agent').join(),
  "read the scheduler's master key": (t) => read(t.masterKey, secretOf(t, 'masterKey')),
  'environment of the agent': (t) => read('/proc/' + t.agentPid + '/environ', secretOf(t, 'agent')),
  'environment of the victim': (t) => read('/proc/' + t.victimPid + '/environ', secretOf(t, 'environment')),
  'signal the agent': (t) => String(process.kill(t.agentPid, 0)),
  'write the build of the victim': (t) => closeSync(openSync(t.victimBuild, 'r+')),
  'a port of loopback': (t) => reach({ host: '127.0.0.1', port: t.loopbackPort }),
  'an abstract socket': (t) => reach({ path: '\\0' + t.abstractSocket }),
  'variables that it inherited': (t) => {
    if (!Object.values(process.env).some((value) => value.includes(secretOf(t, 'agent')))) throw new Error('nothing');
  },
};

export async function attack(input) {
  for (const [fd, hex] of input.writes ?? []) writeSync(fd, Buffer.from(hex, 'hex'));
  if (input.writes) return new Promise(() => undefined);
  const targets = input;
  const verdicts = {};
  for (const [name, one] of Object.entries(DIRECT)) {
    try {
      verdicts['directly: ' + name] = { verdict: 'succeeded', detail: String(await one(targets)).slice(0, 200) };
    } catch (error) {
      verdicts['directly: ' + name] = { verdict: 'refused', detail: error.code ?? error.message };
    }
  }
  const child = spawn('python3', ['attacks.py'], { env: { ...process.env, TARGETS: JSON.stringify(targets) }, stdio: ['ignore', 'pipe', 'inherit'] });
  // Not until its output ends: the process that it leaves holds it open.
  for await (const line of createInterface(child.stdout)) {
    if (line === 'verdicts end') break;
    if (!line.startsWith('verdict ')) continue;
    const { name, ...verdict } = JSON.parse(line.slice('verdict '.length));
    verdicts[name] = verdict;
  }
  return verdicts;
}
`;

export interface Attacker {
  readonly name: string;
  readonly files: Readonly<Record<string, string>>;
  /** Without functions: a command that prints its verdicts. */
  readonly release: Partial<ReleaseSpec>;
}

export const ATTACKERS: readonly Attacker[] = [
  { name: 'python', files: { ...PROGRAMS, 'main.py': PYTHON }, release: { runtime: 'process' } },
  { name: 'node', files: { ...PROGRAMS, 'main.js': JAVASCRIPT }, release: { runtime: 'process' } },
  { name: 'thread', files: { ...PROGRAMS, 'main.js': JAVASCRIPT }, release: { runtime: 'thread' } },
  {
    name: 'command',
    files: PROGRAMS,
    release: { runtime: 'process', functions: [], command: ['python3', 'attacks.py', 'stay'], startTimeoutMs: 90_000 },
  },
];

/** The victim: a worker of another account with a secret in its memory and environment, and two processes. */
export const VICTIM = {
  'build.txt': 'as the victim deployed it',
  'main.py': `
import os
import subprocess
import time

children = {}

def start(input):
    for name in ('victim', 'decoy'):
        children[name] = subprocess.Popen(['/bin/sleep', '600'], env={'VICTIM_SECRET': input['secret'], 'VICTIM_ROLE': input['mark'] + name})
    return 'started'

def alive(input):
    return {name: child.poll() is None for name, child in children.items()}

def hold(input):
    time.sleep(2)
    return 'its own'

def victim(input):
    return {'start': start, 'alive': alive, 'hold': hold}[input['do']](input)
`,
};
