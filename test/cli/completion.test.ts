/** Completion in the shells themselves: what they offer after a part of a command line. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, chmodSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';

import test, { type ExecutionContext } from 'ava';

import { allCommands } from '../../cli/commands.ts';
import { completionScript } from '../../cli/command/completion.ts';
import { folderOf } from '../support/folder.ts';

type Shell = 'bash' | 'zsh' | 'fish';

/** Stands for the tool where a shell asks it for names; it must not be given others' options. */
const TOOL = '#!/bin/sh\n[ "$1" = complete ] || exit 2\nprintf "%s-alpha\\n%s-beta\\n" "$2" "$2"\n';

/** What each shell runs to print its offers for `$LINE`, one a line. */
const ASK: Readonly<Record<Shell, string>> = {
  bash: `source "$SCRIPT"
    read -r -a COMP_WORDS <<<"$LINE"
    [[ "$LINE" == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$(( \${#COMP_WORDS[@]} - 1 ))
    _capstan
    printf '%s\\n' "\${COMPREPLY[@]}"`,
  fish: 'source "$SCRIPT"; complete -C "$LINE"',
  // A shell on a terminal of its own: Tab is pressed, and the line is printed by a key that is bound to that.
  zsh: `zmodload zsh/zpty
    zpty inner zsh -f -i
    said() {
      REPLY=
      for i in {1..1000}; do
        while zpty -r -t inner line; do REPLY+="$line"; done
        [[ "$REPLY" == $~1 ]] && return 0
        sleep 0.05
      done
      print -r -- "no $1 in \${(V)REPLY}" >&2
      exit 1
    }
    zpty -w inner "PS1=; RPS1=; unsetopt beep prompt_cr; source \${(q)SCRIPT}; shown() { print -r -- \\"<<\\$BUFFER>>\\"; BUFFER=; zle accept-line }; zle -N shown; bindkey '^X^X' shown; print rea''dy"
    said '*ready*'
    zpty -w -n inner "$LINE"$'\\t\\x18\\x18'
    said '*<<capstan*>>*'
    print -r -- "\${\${REPLY##*<<}%%>>*}"
    zpty -d inner`,
};

function hasProgram(name: string): boolean {
  return (process.env['PATH'] ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

async function offers(t: ExecutionContext, shell: Shell, line: string): Promise<string[]> {
  const folder = await folderOf(t, { script: completionScript(shell, await allCommands()), 'bin/capstan': TOOL });
  chmodSync(join(folder, 'bin/capstan'), 0o755);
  const env = {
    PATH: `${join(folder, 'bin')}:${process.env['PATH'] ?? ''}`,
    HOME: folder,
    SCRIPT: join(folder, 'script'),
    LINE: line,
    TERM: 'dumb',
  };
  const plain = { bash: ['--norc'], zsh: ['-f'], fish: ['--no-config'] }[shell];
  const child = spawn(shell, [...plain, '-c', ASK[shell]], { env, cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  t.teardown(() => child.kill('SIGKILL'));
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  if (err !== '') t.log(err);
  // fish adds descriptions after a tab.
  return out.split('\n').flatMap((each) => (each.trim() === '' ? [] : (each.split('\t')[0] ?? '')));
}

for (const shell of ['bash', 'fish'] as const) {
  const shellTest = hasProgram(shell) ? test : test.skip;
  const reason = hasProgram(shell) ? '' : ` (skipped: ${shell} is not installed)`;
  shellTest(`${shell} completes commands, actions, options, their values and names${reason}`, async (t) => {
    t.deepEqual(await offers(t, shell, 'capstan endp'), ['endpoints']);
    const actions = await offers(t, shell, 'capstan node ');
    for (const action of ['list', 'drain', 'resume', 'remove', 'token']) t.true(actions.includes(action), action);
    t.deepEqual(await offers(t, shell, 'capstan node token cr'), ['create']);
    t.deepEqual(await offers(t, shell, 'capstan keys create x --sco'), ['--scope']);
    t.true((await offers(t, shell, 'capstan completion ')).includes('fish'));
    t.deepEqual(await offers(t, shell, 'capstan endpoints get endpoint-a'), ['endpoint-alpha']);
    for (const [line, kind] of [
      ['env get', 'environment'],
      ['node drain', 'node'],
      ['keys revoke', 'key'],
      ['account delete', 'account'],
      ['secret delete', 'secret'],
    ] as const)
      t.deepEqual(await offers(t, shell, `capstan ${line} ${kind}-b`), [`${kind}-beta`]);
    t.deepEqual(await offers(t, shell, 'capstan endpoints list --env environment-b'), ['environment-beta']);
    t.deepEqual(
      (await offers(t, shell, 'capstan complete')).filter((offer) => offer === 'complete'),
      [],
    );
  });
}

(hasProgram('zsh') ? test : test.skip)(
  `zsh completes commands, actions, options and names${hasProgram('zsh') ? '' : ' (skipped: zsh is not installed)'}`,
  async (t) => {
    for (const [line, completed] of [
      ['capstan endp', 'capstan endpoints '],
      ['capstan node token cr', 'capstan node token create '],
      ['capstan keys create x --sco', 'capstan keys create x --scope '],
      ['capstan endpoints get endpoint-a', 'capstan endpoints get endpoint-alpha '],
    ] as const)
      t.deepEqual(await offers(t, 'zsh', line), [completed]);
  },
);
