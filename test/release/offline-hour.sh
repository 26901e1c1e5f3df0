# What an operator of a closed site does: runs in a file system with a base Debian only and without a network.
# Argument: the folder of the unpacked bundle.
set -eu
export HOME=/root
cd /root
[ -z "$(command -v node || true)$(command -v python3 || true)" ]
"$1/install.sh" --no-units
rm -rf "$1"
capstan version --verify
echo "verified $(capstan version)"
capstan up --http-port 0 --grpc-port 0 >up.log 2>&1 &
up=$!
trap 'kill -TERM $up 2>/dev/null || true' EXIT
started=$(date +%s%N)
until grep -q '^Press Ctrl+C to stop it' up.log; do
  kill -0 "$up" || { cat up.log >&2; exit 1; }
  sleep 0.1
done
echo "up after $((($(date +%s%N) - started) / 1000000)) ms"
mkdir hello
cat >hello/hello.ts <<'TS'
import { endpoint } from '@capstan/sdk';

export const hello = endpoint({ name: 'hello', workers: [0, 1] }, (name: string) => `Hello, ${name}!`);
TS
capstan deploy hello
echo "job $(capstan call hello name=Ada)"
printf 'x' >>/opt/capstan/current/node_modules/capstan/README.md
code=0
capstan version --verify >verify.log 2>&1 || code=$?
cat verify.log
echo "changed $code"
kill -TERM "$up"
wait "$up" || true
trap - EXIT
echo ended
