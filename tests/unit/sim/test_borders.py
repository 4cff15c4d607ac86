import ast
import sys
from pathlib import Path

import harvest_sim


def test_the_simulator_stands_on_the_standard_library_alone() -> None:
    modules = list(Path(harvest_sim.__path__[0]).glob("**/*.py"))
    imported = {
        name.split(".")[0]
        for module in modules
        for node in ast.walk(ast.parse(module.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert len(modules) > 10
    assert imported - sys.stdlib_module_names == {"harvest_sim"}
