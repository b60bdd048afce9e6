#!/usr/bin/env python3
"""The files in .github are what GitHub takes: workflows, issue forms and their settings go by its schemas, without a network.
usage: github_test.py SOURCE          exit status 77: jsonschema or yaml is not installed

The schemas are those that the package check-jsonschema brings (of SchemaStore); where it is missing, those tests are skipped."""
import copy
import importlib.resources
import json
import os
import pathlib
import re
import sys
import unittest

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"{missing}: apt-get install python3-jsonschema python3-yaml")
    sys.exit(77)

SOURCE = pathlib.Path(sys.argv[1])
GITHUB = SOURCE / ".github"
WORKFLOWS = sorted(GITHUB.glob("workflows/*.yml"))
FORMS = sorted(set(GITHUB.glob("ISSUE_TEMPLATE/*.yml")) - {GITHUB / "ISSUE_TEMPLATE/config.yml"})


def read(path):
    """Its values; "on" is a word here, and no yes."""
    values = yaml.safe_load(path.read_text())
    return {"on" if key is True else key: value for key, value in values.items()}


def complaints(values, schema):
    try:
        folder = importlib.resources.files("check_jsonschema")
    except ModuleNotFoundError:
        raise unittest.SkipTest("no check_jsonschema: pip install check-jsonschema")
    text = (folder / f"builtin_schemas/vendor/{schema}.json").read_text()
    checker = jsonschema.Draft7Validator(json.loads(text))
    return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in checker.iter_errors(values)]


def jobs():
    return [(path, name, job) for path in WORKFLOWS for name, job in read(path)["jobs"].items()]


class GitHub(unittest.TestCase):
    def test_workflows_go_by_the_schema(self):
        self.assertTrue(WORKFLOWS)
        for path in WORKFLOWS:
            self.assertEqual(complaints(read(path), "github-workflows"), [], path)

    def test_issue_forms_go_by_the_schema(self):
        self.assertTrue(FORMS)
        for path in FORMS:
            self.assertEqual(complaints(read(path), "github-issue-forms"), [], path)
        self.assertEqual(complaints(read(GITHUB / "ISSUE_TEMPLATE/config.yml"), "github-issue-config"), [])

    def test_mistakes_are_seen(self):
        sound = read(WORKFLOWS[0])
        job = next(iter(sound["jobs"]))
        for mistake in (lambda w: w["jobs"][job].pop("runs-on"), lambda w: w.pop("on"),
                        lambda w: w["jobs"][job]["steps"][0].update(shel="bash"), lambda w: w["jobs"][job].update({"timeout-minutes": []})):
            wrong = copy.deepcopy(sound)
            mistake(wrong)
            self.assertNotEqual(complaints(wrong, "github-workflows"), [])

    def test_jobs_wait_for_jobs_that_are_there(self):
        for path, name, job in jobs():
            needs = job.get("needs", [])
            for other in [needs] if isinstance(needs, str) else needs:
                self.assertIn(other, read(path)["jobs"], f"{path.name}: {name} needs it")

    def test_commands_are_those_of_the_tree(self):
        said = " ".join(step.get("run", "") for _, _, job in jobs() for step in job["steps"])
        programs = set(re.findall(r"(?<![\w./-])(?:tools|packaging|\.ci)/[\w./-]+", said))
        self.assertTrue(programs)
        for program in programs:
            self.assertTrue(os.access(SOURCE / program, os.X_OK), f"{program} is no program")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
