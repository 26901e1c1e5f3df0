/** Level `user`: the agent looks at a worker's GPUs from its own namespaces, and never from those that the worker has made. */
import { chmod, symlink } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { ProcessGpuViews } from '../../agent/runtimes/hosted/process-gpu-views.ts';
import { folderOf } from '../support/folder.ts';
import { openUserLevel, type UserLevel } from './user-level.ts';
import { hasUserLevel, userTest } from './user-test.ts';
import { start } from './user-programs.ts';

const level: UserLevel = hasUserLevel ? await openUserLevel() : (undefined as never);
test.after.always(() => (hasUserLevel ? level.close() : undefined));

/** In its own namespaces, its program is the shell and what the agent would start there. */
const OWN_SHELL = `cat >"$HOME/shell" <<'END'
#!/usr/bin/bash
echo "entered by $(id -u)"
exit 77
END
chmod 755 "$HOME/shell"
for program in /bin/sh /usr/bin/setpriv; do mount --bind "$HOME/shell" "$(realpath "$program")" || exit 1; done
echo hidden
exec sleep 60`;

userTest('a worker in namespaces of its own is never entered', async (t) => {
  const folder = await folderOf(t);
  await chmod(folder, 0o755);
  const device = join(folder, 'nvidia0');
  await symlink('/dev/null', device);
  const views = new ProcessGpuViews({ program: join(folder, 'absent'), paths: [], devices: () => [device] });
  const attacker = await start(t, level, `exec unshare --user --map-root-user --mount /bin/bash -c '. ./main.sh'`, {
    build: { 'main.sh': OWN_SHELL },
  });
  await attacker.printed('hidden');
  const exited = attacker.process.gone.then(() => undefined);
  views.keep({ workerId: 'attacker', deviceUuids: ['GPU-0'] }, attacker.process, exited);
  t.is(await views.problemOf('attacker'), undefined);
});
