"""What a file imports: files of the application, and modules that neither the application nor the standard library gives."""
import ast
import os

from module_names import check_unicode_form, is_standard
from sdk_names import FORMER_PACKAGE, PACKAGE


def imported_files(root, roots, path, tree):
    """
    Yields the application's own files that a file imports, with the statement; not imports in a `try`, which may fail.
    """
    for base, name, node in imported_names(tree.body, os.path.dirname(path)):
        # An absolute import starts from any of the roots.
        for start in [base] if base is not None else [""] + roots:
            stem = os.path.join(start, *name.split(".")) if name else start
            found = [each for each in (stem + ".py", os.path.join(stem, "__init__.py")) if os.path.isfile(os.path.join(root, each))]
            for each in found:
                yield each, node
            if not found and name:
                check_unicode_form(node, os.path.join(root, os.path.dirname(stem)), os.path.basename(stem))


def imported_names(body, folder):
    """Yields (folder, dotted name, statement) of each module that statements may import; no folder for absolute names."""
    for node in body:
        if isinstance(node, ast.Try):
            continue
        if isinstance(node, ast.Import):
            for each in node.names:
                yield None, each.name, node
        elif isinstance(node, ast.ImportFrom):
            base = folder
            for _ in range(node.level - 1):
                base = os.path.dirname(base)
            base = base if node.level > 0 else None
            yield base, node.module or "", node
            for each in node.names:
                yield base, ".".join(part for part in (node.module, each.name) if part), node
        else:
            yield from imported_names([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)], folder)


def needed_imports(body):
    """Yields top-level names of the modules that a file imports, except those in a `try`, which may be missing."""
    for node in body:
        if isinstance(node, ast.Try):
            continue
        if isinstance(node, ast.Import):
            for each in node.names:
                yield each.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0]
        else:
            yield from needed_imports([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)])


def foreign_modules(root, roots, tree):
    """Yields (top-level name, line) of imports that neither the project nor the standard library gives."""
    for name, line in surely_imported(tree.body):
        own = any(os.path.exists(os.path.join(root, start, name + ending)) for start in [""] + roots for ending in ("", ".py"))
        if not own and name not in (PACKAGE, FORMER_PACKAGE, "__future__") and not is_standard(name):
            yield name, line


def surely_imported(body):
    """Imports in a `try`, in `with suppress(…)` or for type checkers may be missing, and so may those in a condition on the system."""
    for node in body:
        if isinstance(node, ast.Try) or (isinstance(node, ast.With) and "suppress" in ast.dump(node.items[0])):
            continue
        if isinstance(node, ast.If) and any(each in ast.dump(node.test) for each in ("TYPE_CHECKING", "platform", "version_info", "find_spec")):
            continue
        if isinstance(node, ast.Import):
            for each in node.names:
                yield each.name.split(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0], node.lineno
        else:
            yield from surely_imported([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)])
