#!/usr/bin/env python3
"""Recipes for packages: all of one version, with what Meson asks for, and every installed file in a package.
usage: recipes_test.py SOURCE BUILD

What a packager's own programs say is asked of those that are here: rpmspec, hadolint."""
import ast
import fnmatch
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

SOURCE, BUILD = (pathlib.Path(path) for path in sys.argv[1:3])
PACKAGING = SOURCE / "packaging"
# Meson's name of a library that a full build uses: what the systems call it.
LIBRARIES = {
    "libhwy": {"conda": "libhwy", "spack": "highway", "rpm": "highway-devel"},
    "pugixml": {"conda": "pugixml", "spack": "pugixml", "rpm": "pugixml-devel"},
    "CLI11": {"conda": "cli11", "spack": "cli11", "rpm": "cli11-devel"},
    "nlohmann_json": {"conda": "nlohmann_json", "spack": "nlohmann-json", "rpm": "json-devel"},
    "hwloc": {"conda": "libhwloc", "spack": "hwloc", "rpm": "hwloc-devel"},
    "verbs": {"conda": "rdma-core", "spack": "rdma-core", "rpm": "rdma-core-devel"},
    "ucx": {"conda": "ucx", "spack": "ucx", "rpm": "ucx-devel"},
}
# Of the %files sections, beside what macros stand for.
MACROS = {"%{_libdir}": "{libdir}", "%{_bindir}": "{bindir}", "%{_includedir}": "{includedir}", "%{_mandir}": "{mandir}",
          "%{_docdir}": "{datadir}/doc", "%{_datadir}": "{datadir}", "%{soversion}": "0"}


def text(path):
    return (PACKAGING / path).read_text(encoding="utf-8")


def introspect(what):
    said = subprocess.run(["meson", "introspect", what, str(BUILD)], stdout=subprocess.PIPE, check=True, text=True).stdout
    return json.loads(said)


class Recipes(unittest.TestCase):
    def test_they_are_of_one_version(self):
        version = introspect("--projectinfo")["version"]
        self.assertIn(f"revision = v{version}\n", text("wrap/tutti.wrap"))
        self.assertIn(f'version("{version}", tag="v{version}")', text("spack/package.py"))
        self.assertIn(f"%{{!?tutti_version:{version}}}", text("rpm/tutti.spec"))
        self.assertIn("load_file_regex", text("conda/meta.yaml"))

    def test_the_conda_recipe_becomes_yaml_with_all_that_is_needed(self):
        try:
            import jinja2
            import yaml
        except ImportError as missing:
            self.skipTest(missing)
        version = introspect("--projectinfo")["version"]
        found = re.search(r'regex_pattern="(.*?)"', text("conda/meta.yaml"))[1]
        self.assertEqual(re.search(found, (SOURCE / "meson.build").read_text())[1], version)
        functions = {"load_file_regex": lambda **_: re.match("(.*)", version), "compiler": lambda language: f"{language}_compiler",
                     "pin_subpackage": lambda name, **_: f"{name} >={version}"}
        template = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(text("conda/meta.yaml"))
        recipe = yaml.safe_load(template.render(functions))
        self.assertEqual(recipe["package"], {"name": "tutti", "version": version})
        self.assertTrue((PACKAGING / "conda" / recipe["source"]["path"] / recipe["about"]["license_file"]).exists())
        self.assertEqual(set(recipe["requirements"]), {"build", "host", "run"})
        self.assertGreater(len(recipe["test"]["commands"]), 2)

    def test_they_ask_for_what_a_full_build_uses(self):
        for library, names in LIBRARIES.items():
            self.assertRegex(text("conda/meta.yaml"), rf"(?m)^    - {names['conda']}( |$)", library)
            self.assertRegex(text("spack/package.py"), rf'depends_on\("{names["spack"]}["@]', library)
            self.assertRegex(text("rpm/tutti.spec"), rf"(?m)^BuildRequires: +{names['rpm']}( |$)", library)
        used = {d["name"] for d in introspect("--dependencies")} - {"threads", "catch2", "pmix"}
        self.assertEqual(used - LIBRARIES.keys(), set(), "LIBRARIES lacks what Meson finds")

    def test_spack_variants_are_options_of_meson(self):
        options = {o["name"] for o in introspect("--buildoptions")}
        tree = ast.parse(text("spack/package.py"))
        variants = {c.args[0].value for c in ast.walk(tree) if isinstance(c, ast.Call) and getattr(c.func, "id", "") == "variant"}
        self.assertGreater(len(variants), 3)
        self.assertEqual(variants - options, set())

    def test_every_installed_file_is_in_one_rpm(self):
        patterns = []
        for section in re.findall(r"(?ms)^%files (\w+)\n(.*?)(?=^%files|^%changelog)", text("rpm/tutti.spec")):
            for line in section[1].split("\n"):
                if line.startswith("%{_"):
                    for macro, stands in MACROS.items():
                        line = line.replace(macro, stands)
                    patterns.append((section[0], line))
        files = {plan["destination"] for kind in introspect("--install-plan").values() for plan in kind.values()}
        self.assertGreater(len(files), 20)
        folders = {o["name"]: o["value"] for o in introspect("--buildoptions") if o["section"] == "directory"}
        for file in sorted(files):
            for name in ("libdir", "bindir", "includedir", "mandir", "datadir"):
                file = re.sub(rf"^{re.escape(folders[name])}/", f"{{{name}}}/", file)
            file = re.sub(r"^\{(?:libdir_shared|libdir_static)\}", "{libdir}", file)
            file = re.sub(r"^\{prefix\}/share", "{datadir}", file).replace("{datadir}/man", "{mandir}")
            owners = {name for name, pattern in patterns
                      if fnmatch.fnmatchcase(file, pattern) or file.startswith(pattern + "/")}
            self.assertEqual(len(owners), 1, f"{file} is in {owners or 'no package'}")

    def test_rpmspec_reads_the_spec(self):
        if shutil.which("rpmspec"):
            done = subprocess.run(["rpmspec", "-q", "--qf", "%{name}\n", str(PACKAGING / "rpm/tutti.spec")],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)
            for name in ("tutti-libs", "tutti-devel", "tutti-tools", "tutti-nccl"):
                self.assertIn(name, done.stdout.split())

    def test_hadolint_finds_nothing_but_versions_that_are_not_pinned(self):
        if shutil.which("hadolint"):
            subprocess.run(["hadolint", "--ignore", "DL3008", str(PACKAGING / "docker/Dockerfile")], check=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
