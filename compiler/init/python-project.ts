/** A new project in Python. */
import { ENV_EXAMPLE, readme } from './shared-files.ts';

export function pythonProject(name: string): Readonly<Record<string, string>> {
  return {
    'gpu_worker.py': `from capstan import Endpoint


# With a GPU: from capstan import Endpoint, GpuGroup, and gpu=GpuGroup.ANY.
@Endpoint(name="${name}-embed", workers=(0, 3), idle_timeout=300)
def embed(text: str):
    """A vector of the text's letters; put a model here."""
    letters = [text.lower().count(each) for each in "abcdefghijklmnopqrstuvwxyz"]
    return {"vector": letters}
`,
    'cpu_worker.py': `from capstan import Endpoint


@Endpoint(name="${name}-search", workers=(0, 3), idle_timeout=300)
def search(query: str, documents: list = ["apple pie", "pear tree", "plum jam"]):
    """The document most like the query."""
    # Deployed, this import gives a stub: the call runs at the other endpoint.
    from gpu_worker import embed

    wanted = embed(query)["vector"]

    def likeness(document):
        return sum(a * b for a, b in zip(wanted, embed(document)["vector"]))

    return {"query": query, "best": max(documents, key=likeness)}
`,
    'lb_worker.py': `from capstan import Endpoint

api = Endpoint(name="${name}-api", workers=(1, 3))


@api.get("/health")
def health():
    return {"status": "ok", "service": "${name}"}


@api.post("/count")
def count(text: str):
    return {"text": text, "words": len(text.split())}
`,
    'pyproject.toml': `[project]
name = "${name}"
version = "0.1.0"
requires-python = ">=3.8"
`,
    'requirements.txt': '# Packages of all workers; those of a single worker belong into its dependencies=[…].\n',
    '.env.example': ENV_EXAMPLE,
    '.gitignore': '.env\n.tool/\n__pycache__/\n*.pyc\n.venv/\n',
    'README.md': readme(name, 'py'),
  };
}
