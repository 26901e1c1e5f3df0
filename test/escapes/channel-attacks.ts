/** What code in a worker may write to the channel to its agent, although it must not: each ends its worker, and nothing else. */

const CHANNEL_FD = 3;
const ENTRY_FD = 4;
export interface ChannelAttack {
  readonly name: string;
  /** Bytes (hexadecimal) for descriptors, by the key of the victim's task. */
  writes(victim: string): readonly (readonly [fd: number, hex: string])[];
}

function frame(header: object, body = ''): string {
  const text = Buffer.from(JSON.stringify(header));
  const prefix = Buffer.alloc(8);
  prefix.writeUInt32LE(4 + text.length + body.length, 0);
  prefix.writeUInt32LE(text.length, 4);
  return Buffer.concat([prefix, text, Buffer.from(body)]).toString('hex');
}

export const CHANNEL_ATTACKS: readonly ChannelAttack[] = [
  { name: 'end the job of the victim', writes: (victim) => [[CHANNEL_FD, frame({ t: 'returned', key: victim, ms: 1 }, '"forged"')]] },
  { name: 'enter the job of the victim', writes: (victim) => [[ENTRY_FD, Buffer.from(`${victim}\n`).toString('hex')]] },
  {
    name: 'a frame with a long header',
    writes: () => [[CHANNEL_FD, frame({ t: 'log', stream: 'stdout', jobId: '', text: '\n'.repeat(8_192) })]],
  },
];
