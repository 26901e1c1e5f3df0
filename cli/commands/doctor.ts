import { errorTable } from '../../lib/errors.ts';
import type { Command } from '../command/command.ts';
import { flagOption } from '../../terminal/options.ts';
import { readSettings, SCHEDULER_SETTINGS } from '../../terminal/config.ts';

/** `capstan doctor`: checks this host and says how to fix what is wrong. */
export const doctor: Command = {
  name: 'doctor',
  summary: 'Check this host: Node.js, data folder, disk, ports, GPUs, container engine, the running stack.',
  settings: ['url', 'httpPort', ...SCHEDULER_SETTINGS, 'containerSocket'],
  json: true,
  examples: ['doctor', 'doctor --url https://api.example.org', 'doctor --json'],
  async run({ options, env, terminal }) {
    const settings = readSettings(options, env);
    const { examine } = await import('../doctor/checks.ts');
    const findings = await examine(settings, env);
    if (flagOption(options, 'json')) terminal.data(JSON.stringify(findings, null, 2));
    else {
      for (const { verdict, name, text, hint } of findings) {
        const line = `${name}: ${text}`;
        if (verdict === 'ok') terminal.done(line);
        else if (verdict === 'warning') terminal.warn(line);
        else terminal.fail(line);
        if (hint !== '') terminal.hint(hint);
      }
    }
    return findings.some(({ verdict }) => verdict === 'fault') ? errorTable.CONFIG.exit : 0;
  },
};
