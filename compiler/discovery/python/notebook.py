"""
Reads a notebook from standard input and prints, as JSON, a module of what its endpoints need: their declarations, and the imports,
functions, classes and constants that those use, cell by cell. Nothing is run. A cell that begins with `#| export` goes along whole.
"""
import ast
import json
import re
import symtable
import sys

MARK = re.compile(r"\s*#\s*(\|\s*export|capstan:\s*export)\b")
TAGS = {"capstan", "export"}
HEADER = re.compile(r"(?m)^# /// script$\s(?:^#(?:| .*)$\s)+^# ///$")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
MAGIC = re.compile(r"\s*[%!]")
IMPORTS = (ast.Import, ast.ImportFrom)


class Fault(Exception):
    def __init__(self, cell, line, message):
        super().__init__(message)
        self.cell = cell
        self.line = line


class Statement:
    def __init__(self, cell, node, text, is_marked):
        self.cell = cell
        self.node = node
        self.text = text
        self.is_marked = is_marked
        self.defines = defined_by(node)
        self.uses = used_by(text)

    @property
    def is_declaration(self):
        """Whether it goes along without a mark: it runs nothing but definitions."""
        node = self.node
        return self.is_marked or isinstance(node, DEFINITIONS + IMPORTS) or is_constant(node) or declares(node)


def main(document):
    if not isinstance(document, dict) or not isinstance(document.get("cells"), list):
        raise Fault(0, 0, "is not a notebook of nbformat 4")
    statements = []
    headers = []
    for number, cell in enumerate(document["cells"], 1):
        if cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        source = source if isinstance(source, str) else "".join(source)
        headers += HEADER.findall(source)
        marked = MARK.match(source) is not None or bool(TAGS.intersection(cell.get("metadata", {}).get("tags", [])))
        statements += read_cell(number, source, marked)
    needed = closure(statements)
    if not any(declares(each.node) for each in needed):
        raise Fault(0, 0, "declares no endpoint: no cell has a function with @Endpoint(…) of capstan")
    parts = list(headers[:1])
    last = 0
    for each in needed:
        parts.append(f"# cell {each.cell}\n{each.text}" if each.cell != last else each.text)
        last = each.cell
    return {"source": "\n\n\n".join(parts) + "\n", "cells": sorted({each.cell for each in needed}), "of": len(document["cells"])}


def read_cell(number, source, marked):
    lines = source.split("\n")
    magic = next((line for line in lines if line.strip() != ""), "").startswith("%%")
    if magic:
        if marked:
            raise Fault(number, 1, "a cell with a magic of the whole cell (%%) cannot be exported")
        return []
    try:
        plain, tree = parsed(lines)
    except SyntaxError as error:
        # A cell that is no Python may hold notes; one that declares an endpoint has a mistake.
        if marked or "Endpoint" in source:
            raise Fault(number, error.lineno or 1, error.msg)
        return []
    found = []
    for node in tree.body:
        first = first_line(node)
        try:
            found.append(Statement(number, node, text_of(plain, node), marked))
        except SyntaxError as error:
            # Python refuses it only after parsing: `nonlocal` of a name that no function has.
            raise Fault(number, first + (error.lineno or 1) - 1, error.msg)
    return found


def parsed(lines):
    """
    Returns the text of a cell without its magics and shell commands, which mean nothing in a module, and its tree. Only a line that Python
    refuses can be one: the line of a string or of an expression may begin with the same characters.
    """
    rest = list(lines)
    while True:
        plain = "\n".join(rest)
        try:
            return plain, ast.parse(plain)
        except SyntaxError as error:
            at = refused_magic(rest, error)
            if at is None:
                raise
            while rest[at].endswith("\\") and at + 1 < len(rest):
                rest[at] = ""
                at += 1
            rest[at] = ""


def refused_magic(lines, error):
    """Returns the index of the magic that Python refuses; None where it refuses anything else."""
    at = min(error.lineno or 1, len(lines)) - 1
    return at if MAGIC.match(lines[at]) else None


def text_of(source, node):
    """The text of a statement with its decorators, without what else stands on its lines."""
    before = source.split("\n")[first_line(node) - 1 : node.lineno - 1]
    return "\n".join(before + [ast.get_source_segment(source, node)])


def first_line(node):
    return min([node.lineno] + [each.lineno for each in getattr(node, "decorator_list", [])])


def closure(statements):
    """Returns the statements that the endpoints and the marked cells need, in their order."""
    latest = {}
    for each in statements:
        for name in each.defines:
            latest[name] = each
    needed = set()
    open_ones = [each for each in statements if each.is_marked or declares(each.node) or is_always(each.node)]
    while open_ones:
        one = open_ones.pop()
        if one in needed:
            continue
        needed.add(one)
        for name in one.uses:
            other = latest.get(name)
            if other is None or other is one or other in needed:
                continue
            if not other.is_declaration:
                line = other.node.lineno
                user = next(iter(sorted(one.defines)), f"cell {one.cell}")
                raise Fault(
                    other.cell,
                    line,
                    f"{name} is set by code that runs, and {user} (cell {one.cell}) uses it; "
                    "set it inside of the function, or begin the cell with #| export so that it runs when a worker starts",
                )
            open_ones.append(other)
    return [each for each in statements if each in needed]


def declares(node):
    """Whether a statement declares an endpoint, or a function of one."""
    calls = getattr(node, "decorator_list", [])
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        calls = [node.value]
    return any(last_name(inner) == "Endpoint" for call in calls for inner in ast.walk(call)) or any(is_route(call) for call in calls)


def is_route(node):
    """`@api.get("/path")` of an endpoint that another statement declares; of anything else it does no harm."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("get", "post", "put", "delete", "patch")
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
        and str(node.args[0].value).startswith("/")
    )


def is_always(node):
    return isinstance(node, ast.ImportFrom) and (node.module == "__future__" or any(each.name == "*" for each in node.names))


def last_name(node):
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def is_constant(node):
    """An assignment of a literal, or of names: `MODEL = "small"`."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)):
        return False
    allowed = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Name, ast.Attribute, ast.UnaryOp, ast.BinOp)
    parts = [each for each in ast.walk(node.value) if isinstance(each, ast.expr)] if node.value is not None else []
    return all(isinstance(each, allowed) for each in parts)


def defined_by(node):
    if isinstance(node, DEFINITIONS):
        return {node.name}
    if isinstance(node, IMPORTS):
        return {(each.asname or each.name).split(".")[0] for each in node.names}
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def used_by(text):
    """Names of the module that a statement uses, also inside of its functions, but not their own variables."""
    found = set()

    def walk(table, is_top):
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (is_top or symbol.is_global()):
                found.add(symbol.get_name())
        for child in table.get_children():
            walk(child, False)

    walk(symtable.symtable(text, "cell", "exec"), True)
    return found


if __name__ == "__main__":
    try:
        answer = main(json.loads(sys.stdin.buffer.read().decode("utf-8-sig")))
    except Fault as fault:
        answer = {"fault": {"cell": fault.cell, "line": fault.line, "message": str(fault)}}
    except ValueError as error:
        answer = {"fault": {"cell": 0, "line": 0, "message": f"is not a notebook: {error}"}}
    print(json.dumps(answer))
