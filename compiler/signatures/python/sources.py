"""The application's own files and their top-level names, which annotations refer to. Nothing is run."""
import ast
import os

# Names may stand for imported names, which may do so again: so many are followed.
DEEPEST = 40


class Sources:
    """The application's files, each parsed once."""

    def __init__(self, root):
        self._root = root
        self._files = {}

    def scope(self, path, tree=None):
        """Returns the names of a file; None for one that is not there or does not parse."""
        if path not in self._files:
            self._files[path] = None
            tree = tree or self._parse(path)
            if tree is not None:
                self._files[path] = Scope(self, path, tree)
        return self._files[path]

    def module(self, folder, level, name):
        """Returns the scope of an import; `level`: its leading dots."""
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        # A plain import is found from the root, or beside the file that runs as a program.
        for base in [folder] if level > 0 else ["", folder]:
            stem = os.path.normpath(os.path.join(base, *name.split("."))) if name else base
            for each in (stem + ".py", os.path.join(stem, "__init__.py")):
                found = None if each.startswith("..") else self.scope(each)
                if found is not None:
                    return found
        return None

    def _parse(self, path):
        try:
            with open(os.path.join(self._root, path), "rb") as source:
                return ast.parse(source.read())
        except (OSError, SyntaxError, ValueError):
            # Reported by the reader of the file itself.
            return None


class Scope:
    """The top-level names of one file."""

    def __init__(self, sources, path, tree):
        self._sources = sources
        self._folder = os.path.dirname(path)
        self._names = {}
        for node in tree.body:
            self._add(node)

    def _add(self, node):
        if isinstance(node, ast.ClassDef):
            self._names[node.name] = node
        elif isinstance(node, (ast.If, ast.Try)):
            for each in node.body:
                self._add(each)
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                self._names[each.asname or each.name] = (node.level, node.module or "", each.name)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self._names[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            self._names[node.target.id] = node.value
        elif type(node).__name__ == "TypeAlias":
            self._names[node.name.id] = node.value

    def find(self, name, depth=0):
        """Returns (node, scope) of a name that the application defines; (None, its last name) for any other."""
        found = self._names.get(name)
        if isinstance(found, tuple) and depth < DEEPEST:
            level, module, original = found
            other = self._sources.module(self._folder, level, module)
            return (None, original) if other is None else other.find(original, depth + 1)
        return (None, name) if found is None or isinstance(found, tuple) else (found, self)
