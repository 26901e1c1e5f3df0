/**
 * Loaded first by every Node process of a worker (`--require`, own-modules.ts): packages come from the build, not from folders of the
 * host. Node itself searches `node_modules` in all folders above a file, and for `require` also folders of the user and of Node.
 * CommonJS without dependencies, for any version of Node that a build brings.
 */
'use strict';

const { existsSync, realpathSync } = require('node:fs');
const Module = require('node:module');
const { homedir } = require('node:os');
const { delimiter, dirname, join, sep } = require('node:path');
const { fileURLToPath } = require('node:url');

// oxlint-disable-next-line node/no-process-env -- runs in workers, whose variables these are
const { CAPSTAN_MODULE_ROOTS = '', HOME = homedir() } = process.env;
/** Folders directly in which builds and working folders are. */
const roots = CAPSTAN_MODULE_ROOTS.split(delimiter)
  .filter((root) => root !== '')
  .map(real);
/** They and the folders above them: their packages are the host's. */
const around = new Set(roots.flatMap((root) => [root, ...above(root)]));
const ofHost = new Set([...around].map((folder) => join(folder, 'node_modules')));
const ofUser = new Set([join(HOME, '.node_modules'), join(HOME, '.node_libraries'), join(dirname(process.execPath), '..', 'lib', 'node')]);

const lookupPaths = Module._resolveLookupPaths;
Module._resolveLookupPaths = function ownLookupPaths(request, parent) {
  const paths = lookupPaths.call(this, request, parent);
  if (paths === null || isPath(request)) return paths;
  const isOwn = isWithin(parent?.filename ?? join(process.cwd(), 'x'));
  return paths.filter((path) => !ofUser.has(path) && !(isOwn && ofHost.has(path)));
};

// Imports know no folders of the user, and pay for a hook: only where there is something to hide.
if (typeof Module.registerHooks === 'function' && [...ofHost].some((folder) => existsSync(folder)))
  Module.registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      const { parentURL = '' } = context;
      if (isPath(specifier) || !found.url.startsWith('file:') || !parentURL.startsWith('file:')) return found;
      const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
      const parent = fileURLToPath(parentURL);
      const folder = isWithin(parent) ? folderWith(parent, name) : undefined;
      if (folder === undefined || !around.has(folder)) return found;
      const path = fileURLToPath(found.url);
      const hidden = join(folder, 'node_modules', name);
      if (![hidden, real(hidden)].some((start) => path === start || path.startsWith(start + sep))) return found;
      throw Object.assign(new Error(`Cannot find package '${name}' imported from ${parent}`), { code: 'ERR_MODULE_NOT_FOUND' });
    },
  });

function isWithin(file) {
  return roots.some((root) => file.startsWith(root + sep));
}

/** The nearest folder above a file whose `node_modules` has the package. */
function folderWith(file, name) {
  return above(file).find((folder) => existsSync(join(folder, 'node_modules', name)));
}

/** All folders above, nearest first. */
function above(path) {
  const folders = [];
  for (let at = path, folder = dirname(at); folder !== at; at = folder, folder = dirname(at)) folders.push(folder);
  return folders;
}

/** Node loads files by their real paths. */
function real(path) {
  try {
    return realpathSync(path);
  } catch {
    return path; // it may be made later
  }
}

function isPath(request) {
  return /^(?:\.{0,2}\/|\.{1,2}$|#|[a-z]+:)/i.test(request);
}
