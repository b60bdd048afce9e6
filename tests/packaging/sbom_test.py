#!/usr/bin/env python3
"""packaging/sbom: the document is SPDX 2.3, and has what the build's files are made of and load.
usage: sbom_test.py SOURCE BUILD"""
import json
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE, BUILD = (pathlib.Path(path) for path in sys.argv[1:3])
# Of the C and C++ run time, which every program on a system has.
RUN_TIME = re.compile(r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|atomic)\.so|ld-linux|linux-vdso")
OWN = re.compile(r"libtutti\w*\.so")
PROVIDES = {"hwloc": "hwloc", "crypto": "libcrypto", "ibverbs": "libibverbs", "ucp": "ucx", "ucs": "ucx", "pmix": "pmix"}


def sbom(*more):
    return subprocess.run([str(SOURCE / "packaging/sbom"), str(BUILD), *more], stdout=subprocess.PIPE, text=True, check=True).stdout


class Sbom(unittest.TestCase):
    def setUp(self):
        self.document = json.loads(sbom())
        self.packages = {p["name"]: p for p in self.document["packages"]}

    def test_the_document_has_what_spdx_asks_for(self):
        d = self.document
        self.assertEqual(d["spdxVersion"], "SPDX-2.3")
        self.assertEqual(d["dataLicense"], "CC0-1.0")
        self.assertEqual(d["SPDXID"], "SPDXRef-DOCUMENT")
        self.assertRegex(d["documentNamespace"], r"^https://[^#]+$")
        self.assertRegex(d["creationInfo"]["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertTrue(all(re.match(r"(Tool|Organization|Person): .", c) for c in d["creationInfo"]["creators"]))

    def test_every_package_says_its_licence_and_place(self):
        own_licences = {one["licenseId"] for one in self.document["hasExtractedLicensingInfos"]}
        ids = [p["SPDXID"] for p in self.document["packages"]]
        self.assertEqual(len(ids), len(set(ids)))
        for p in self.document["packages"]:
            self.assertRegex(p["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            self.assertTrue(p["versionInfo"])
            self.assertRegex(p["downloadLocation"], r"^(https://\S+|NOASSERTION)$")
            for word in re.split(r" (?:OR|AND|WITH) ", p["licenseDeclared"]):
                self.assertRegex(word, r"^[A-Za-z0-9.+-]+$")
                if word.startswith("LicenseRef-"):
                    self.assertIn(word, own_licences)

    def test_relations_are_between_what_is_there(self):
        ids = {p["SPDXID"] for p in self.document["packages"]} | {"SPDXRef-DOCUMENT"}
        related = set()
        for r in self.document["relationships"]:
            self.assertIn(r["spdxElementId"], ids)
            self.assertIn(r["relatedSpdxElement"], ids)
            related |= {r["spdxElementId"], r["relatedSpdxElement"]}
        self.assertEqual(related, ids)

    def test_what_files_load_is_listed(self):
        files = [*BUILD.glob("packaging/lib*.so"), *BUILD.glob("src/parallel/lib*.so"), BUILD / "tools/tutti-info"]
        self.assertGreater(len(files), 2)
        for file in files:
            said = subprocess.run(["objdump", "-p", str(file)], stdout=subprocess.PIPE, text=True, check=True).stdout
            for needed in re.findall(r"NEEDED +(\S+)", said):
                if RUN_TIME.match(needed) or OWN.match(needed):
                    continue
                name = re.match(r"lib([A-Za-z]+)", needed)[1]
                self.assertIn(PROVIDES.get(name, name), self.packages, f"{file.name} loads {needed}")

    def test_a_dependency_that_nobody_described_is_refused(self):
        script = (SOURCE / "packaging/sbom").read_text().replace('    "pugixml": ', '    "another": ')
        script = script.replace("os.path.dirname(__file__)", repr(str(SOURCE / "packaging")))
        done = subprocess.run([sys.executable, "-", str(BUILD)], input=script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if "pugixml" in self.packages:
            self.assertEqual(done.returncode, 1)
            self.assertIn("KNOWN lacks pugixml", done.stderr)

    def test_it_is_the_same_when_made_again(self):
        self.assertEqual(sbom(), sbom())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
