"""No import cycles between modules of the package, including imports for types."""
import ast
import pathlib
import unittest

PACKAGE = pathlib.Path(__file__).parent.parent / "capstan"


def imports_of(path):
    """
    Returns the modules of the package that a file imports, wherever the import is; ``__init__`` only re-exports them.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            yield from [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]


def circles(edges):
    found, done = [], set()

    def visit(name, way):
        if name in way:
            found.append(" → ".join(way[way.index(name) :] + [name]))
        elif name not in done:
            for target in edges.get(name, ()):
                visit(target, way + [name])
            done.add(name)

    for name in edges:
        visit(name, [])
    return found


class Imports(unittest.TestCase):
    def test_no_circles(self):
        edges = {path.stem: set(imports_of(path)) for path in PACKAGE.glob("*.py") if path.stem != "__init__"}
        self.assertGreater(len(edges), 20)
        self.assertEqual(circles(edges), [])

    def test_a_circle_is_found(self):
        self.assertEqual(circles({"a": ["b"], "b": ["c"], "c": ["a"]}), ["a → b → c → a"])


if __name__ == "__main__":
    unittest.main()
