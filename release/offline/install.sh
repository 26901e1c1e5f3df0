#!/bin/sh
# Installs Capstan from this folder. It needs no network, no Node.js, no package manager, and as a plain user no root.
#
#   ./install.sh [--prefix <folder>] [--bin <folder>] [--no-units]
#
# As root: /opt/capstan, /usr/local/bin, and the systemd units where systemd runs; they are neither enabled nor started.
# As another user: ~/.local/share/capstan and ~/.local/bin. Each version has a folder, and the link `current` names the one in use.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
version=$(cat "$here/VERSION")
units=yes
if [ "$(id -u)" = 0 ]; then
  prefix=/opt/capstan bin=/usr/local/bin
else
  prefix=${XDG_DATA_HOME:-$HOME/.local/share}/capstan bin=$HOME/.local/bin units=no
fi

fail() {
  printf '✗ %s\n' "$1" >&2
  exit 1
}

while [ $# -gt 0 ]; do
  case $1 in
    --prefix) prefix=${2:-} ;;
    --bin) bin=${2:-} ;;
    --no-units) units=no; shift; continue ;;
    *) fail "unknown option $1: there are --prefix <folder>, --bin <folder> and --no-units" ;;
  esac
  [ -n "${2:-}" ] || fail "$1: a folder is required"
  shift 2
done
case $prefix$bin in *[!A-Za-z0-9_./+~-]*) fail 'a folder may have letters, digits and the characters _ . / + ~ - only' ;; esac

machine=$(uname -m)
case $(cat "$here/ARCH"):$machine in
  x64:x86_64 | arm64:aarch64) ;;
  *) fail "this bundle is for $(cat "$here/ARCH"), and this machine is $machine" ;;
esac
(cd "$here" && sha256sum --check --quiet SHA256SUMS) || fail 'files of the bundle are damaged: unpack it again'

target=$prefix/$version
mkdir -p "$prefix" "$bin"
if [ "$here" != "$target" ]; then
  # Beside its place first, so that an installation is whole or absent.
  rm -rf "$target.new"
  cp -R "$here" "$target.new"
  rm -rf "$target.old"
  [ ! -e "$target" ] || mv "$target" "$target.old"
  mv "$target.new" "$target"
  rm -rf "$target.old"
fi
ln -sfn "$version" "$prefix/current"
ln -sfn "$prefix/current/node_modules/.bin/capstan" "$bin/capstan"
"$target/node_modules/.bin/capstan" version >/dev/null || fail "$target/node_modules/.bin/capstan does not run on this machine"
printf '✓ Capstan %s is in %s\n' "$version" "$target"

if [ "$units" = yes ] && [ -d /run/systemd/system ]; then
  cp "$target"/systemd/capstan-*.service /etc/systemd/system/
  mkdir -p /etc/sysusers.d /etc/tmpfiles.d
  cp "$target/systemd/sysusers.d/capstan.conf" /etc/sysusers.d/
  cp "$target/systemd/tmpfiles.d/capstan.conf" /etc/tmpfiles.d/
  systemd-sysusers
  systemd-tmpfiles --create
  # It can take GPUs from running containers (docs/gpu-hosts.md).
  if ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
    echo "! systemctl daemon-reload can take GPUs from containers that run here; check with: capstan doctor" >&2
  fi
  systemctl daemon-reload
  printf '✓ units are installed; none is enabled\n'
  printf 'next: %s/systemd/README.md\n' "$target"
else
  case :$PATH: in *:"$bin":*) run=capstan ;; *) run=$bin/capstan ;; esac
  printf 'next: %s up\n' "$run"
fi
