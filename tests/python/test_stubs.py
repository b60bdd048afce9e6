"""The type stubs have what the module has: every name, every method, every parameter and whether it has a default."""
import ast
import importlib
import inspect
import pathlib
import unittest

import tutti


def parameters(function):
    """[(name, has a default)] of a function in a stub."""
    a = function.args
    named = [one.arg for one in (*a.posonlyargs, *a.args)]
    optional = len(a.defaults)
    rows = [(name, i >= len(named) - optional) for i, name in enumerate(named)]
    rows += [("*" + a.vararg.arg, False)] if a.vararg else []
    return rows + ([("**" + a.kwarg.arg, False)] if a.kwarg else [])


def real_parameters(function):
    rows = []
    for one in inspect.signature(function).parameters.values():
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        rows.append((star + one.name, one.default is not one.empty))
    return rows


class Stubs(unittest.TestCase):
    def check_function(self, stub, real, where):
        self.assertEqual(parameters(stub), real_parameters(real), where)

    def check_class(self, stub, real):
        for item in stub.body:
            if not isinstance(item, ast.FunctionDef):
                continue
            where = f"{stub.name}.{item.name}"
            found = inspect.getattr_static(real, item.name)
            kinds = [one.id for one in item.decorator_list]
            if "property" in kinds:
                self.assertIsInstance(found, property, where)
                continue
            self.assertEqual("classmethod" in kinds, isinstance(found, classmethod), where)
            self.check_function(item, getattr(found, "__func__", found), where)
        public = {name for name, value in inspect.getmembers(real) if not name.startswith("_") and name not in dir(int)
                  and name not in dir(OSError) and not isinstance(value, real)}
        stated = {item.name for item in stub.body if isinstance(item, ast.FunctionDef)}
        stated |= {item.target.id for item in stub.body if isinstance(item, ast.AnnAssign)}
        inherited = {name for base in real.__mro__[1:] if base.__module__.startswith("tutti") and base.__name__.endswith("Error")
                     for name in vars(base)}
        slots = set(getattr(real, "__slots__", ()))
        self.assertLessEqual(public - slots - inherited - {"code"}, stated, f"{stub.name} has more than its stub")

    def check_module(self, name):
        module = importlib.import_module(name)
        folder = pathlib.Path(tutti.__file__).parent
        path = folder / ("__init__.pyi" if name == "tutti" else name.split(".", 1)[1] + ".pyi")
        looked = 0
        for item in ast.parse(path.read_text()).body:
            if isinstance(item, ast.FunctionDef):
                self.check_function(item, getattr(module, item.name), item.name)
            elif isinstance(item, ast.ClassDef) and item.name != "Record":
                self.check_class(item, getattr(module, item.name))
            else:
                continue
            looked += 1
        return {item.name for item in ast.parse(path.read_text()).body if hasattr(item, "name")}, looked

    def test_the_package(self):
        stated, looked = self.check_module("tutti")
        self.assertGreater(looked, 20)
        constants = {"AVG", "BAND", "BOR", "BXOR", "LAND", "LOR", "MAX", "MIN", "PROD", "SUM", "memory", "parallel"}
        self.assertEqual(set(tutti.__all__) - constants - stated, set())

    def test_memory(self):
        self.assertGreater(self.check_module("tutti.memory")[1], 6)


if __name__ == "__main__":
    unittest.main()
