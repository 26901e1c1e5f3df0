"""What the syntax tree of an annotation says: its names, arguments and plain values."""
import ast


def parsed(node):
    """Returns an annotation that is given as text as its syntax tree; None if it is no expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return ast.parse(node.value.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            return None
    return node


def outer(node):
    node = parsed(node)
    return node.value if isinstance(node, ast.Subscript) else node


def last_name(node):
    node = parsed(node)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def arguments_of(node):
    inner = node.slice.value if type(node.slice).__name__ == "Index" else node.slice
    return list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]


def is_none(node):
    return isinstance(node, ast.Constant) and node.value is None


def is_plain(value):
    return value is None or isinstance(value, (str, int, bool)) or isinstance(value, float) and abs(value) < float("inf")


def negative(node):
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value if isinstance(node.operand.value, (int, float)) else None
    return None
