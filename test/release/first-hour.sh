# What a new user does with a release, without a network: installs the packages, starts the service, deploys, runs jobs.
# Arguments: the folder of the release, its version, an empty folder, a Node that runs nothing of ours, and the checkout, which a
# namespace of mounts hides (empty where there is none).
set -eu
release=$1 version=$2 place=$3 node=$4 checkout=$5
if [ -n "$checkout" ]; then
  cp -r "$release" "$place/release"
  mount -t tmpfs none "$checkout"
  ip link set lo up
  release=$place/release
fi
say() { printf '%s\n' "$*" >&2; }

export HOME="$place/home" PATH="$place/global/bin:$PATH"
mkdir "$HOME"
cd "$HOME"
(cd "$release" && sha256sum --check --quiet SHA256SUMS)

say 'npm: the tool'
npm install --global --offline --prefix "$place/global" "$release/capstan-$version.tgz"
installed=$place/global/lib/node_modules/capstan
[ "$(capstan version)" = "$version" ]
node_kb=$(du -sk "$installed/node_modules/"node-linux-* | cut -f1)
echo "size $(($(du -sk "$place/global" | cut -f1) - node_kb))"

say 'capstan up'
capstan up --http-port 0 --grpc-port 0 >up.log 2>&1 &
up=$!
trap 'kill -TERM $up 2>/dev/null || true' EXIT
until grep -q '^Press Ctrl+C to stop it' up.log; do
  kill -0 "$up" || { cat up.log >&2; exit 1; }
  sleep 0.1
done
url=$(sed -n 's/^.*Capstan is up: \(http[^ ]*\).*$/\1/p' up.log)
key=$(cat .capstan/secrets/api-key)

job() { # endpoint, input
  "$node" -e '
    const [url, key, id, input] = process.argv.slice(1);
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    fetch(`${url}/v2/${id}/runsync`, { method: "POST", headers, body: JSON.stringify({ input: JSON.parse(input) }) })
      .then((answer) => answer.text()).then((text) => console.log(`job ${text}`));
  ' "$url" "$key" "$1" "$2"
}

say 'deploy: TypeScript, Python, an example'
mkdir hello
cat >hello/hello.ts <<'TS'
import { endpoint } from '@capstan/sdk';

export const hello = endpoint({ name: 'hello', workers: [0, 1] }, (name: string, greeting = 'Hello') => `${greeting}, ${name}!`);
TS
cat >hello/bonjour.py <<'PY'
from capstan import Endpoint

@Endpoint(name="bonjour", workers=(0, 1))
def bonjour(name: str):
    return f"Bonjour, {name}!"
PY
capstan deploy hello
cp -r "$installed/examples/text-analysis" analysis
capstan deploy analysis
capstan endpoints list --json >endpoints.json
id() { "$node" -p "JSON.parse(fs.readFileSync('endpoints.json', 'utf8')).find(({ name }) => name === '$1').id"; }
job "$(id hello)" '{"name":"Ada"}'
job "$(id bonjour)" '{"name":"Grace"}'
job "$(id text-analysis)" '{"text":"one two"}'

say 'npm: the SDK'
mkdir app
cd app
echo '{"private":true,"type":"module"}' >package.json
npm install --offline "$release/capstan-sdk-$version.tgz"
SERVICE_API_KEY=$key CAPSTAN_URL=$url "$node" --input-type=module -e "
  import { Endpoint } from '@capstan/sdk';
  console.log('sdk', await new Endpoint('$(cd .. && id hello)').runSync({ name: 'TypeScript' }));
"
cd ..

if [ -n "${PYTHON-}" ]; then
  say 'pip: the SDK with the tool'
  "$PYTHON" -m venv --without-pip venv
  "$PYTHON" -m pip --python venv/bin/python install --quiet --no-index --disable-pip-version-check "$release/capstan-$version-py3-none-any.whl"
  SERVICE_API_KEY=$key CAPSTAN_URL=$url venv/bin/python -c "
import capstan
print('sdk', capstan.Endpoint('$(id bonjour)').run_sync({'name': 'Python'}))
"
  npm_config_offline=true venv/bin/capstan endpoints list --json >listed.json
  "$node" -p '"wheel " + JSON.parse(fs.readFileSync("listed.json", "utf8")).map(({ name }) => name).sort()'
fi

kill -TERM "$up"
wait "$up"
trap - EXIT
echo 'ended'
