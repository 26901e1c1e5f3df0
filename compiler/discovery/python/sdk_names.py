"""Under which names a Python file knows the SDK and its members, and the values of its enums."""
import ast
import enum
import importlib.util
import os

PACKAGE = "capstan"


def load_former_names():
    """Returns the values of the SDK's former names: `{"GpuType": {"NVIDIA_L4": "NVIDIA L4"}}`. The SDK itself is not imported."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "sdk", "python", "capstan", "former_names.py")
    spec = importlib.util.spec_from_file_location("capstan_former_names", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {
        name: {member: each.value for member, each in kind.__members__.items()}
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, enum.Enum) and not name.startswith("_") and kind is not enum.Enum
    }


# The SDK that sources come from; its names of values are read from either.
FORMER_PACKAGE = "runpod_flash"
FORMER_NAMES = load_former_names()
ENUMS = ("GpuGroup", "ScalerType") + tuple(FORMER_NAMES)


class SdkNames:
    """The local names of one file."""

    def __init__(self, tree):
        self._endpoints = set()
        self._enums = {}
        self._volumes = set()
        self._secrets = set()
        self._packages = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    if each.name == PACKAGE:
                        self._packages.add(each.asname or each.name)
            elif isinstance(node, ast.ImportFrom) and node.module in (PACKAGE, FORMER_PACKAGE) and node.level == 0:
                for each in node.names:
                    self._take(node.module, each.name, each.asname or each.name)

    def _take(self, package, name, local):
        if name == "Endpoint" and package == PACKAGE:
            self._endpoints.add(local)
        elif name == "NetworkVolume":
            self._volumes.add(local)
        elif name == "Secret" and package == PACKAGE:
            self._secrets.add(local)
        elif name in ENUMS:
            self._enums[local] = name

    def is_endpoint(self, node):
        return self._is_of_package(node, ("Endpoint",)) or isinstance(node, ast.Name) and node.id in self._endpoints

    def is_volume(self, node):
        return isinstance(node, ast.Name) and node.id in self._volumes

    def is_secret(self, node):
        return self._is_of_package(node, ("Secret",)) or isinstance(node, ast.Name) and node.id in self._secrets

    def enum_of(self, node):
        """Returns the SDK's name of an enum; None for anything else."""
        if isinstance(node, ast.Name):
            return self._enums.get(node.id)
        return node.attr if self._is_of_package(node, ENUMS) else None

    def _is_of_package(self, node, names):
        return isinstance(node, ast.Attribute) and node.attr in names and isinstance(node.value, ast.Name) and node.value.id in self._packages
