#!/usr/bin/env python3
"""Every check of tidy.py reports what it is there for: a small tree without fault, then with one mistake at a time."""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tidy

RULES = {
    "MAY_INCLUDE": {"src/base": set(), "src/comm": {"src/plan"}, "src/plan": set(), "algorithms": {"src/plan"}},
    "PUBLIC_ONLY": ("perf", "src/parallel"), "APART": ("perf/micro",), "DECLARATIONS": ("src/plan/declared.hpp",),
}
RING = """extern constinit const Algorithm kAllReduceRing = {
    .collective = Collective::AllReduce,
    .name = "ring",
};
"""
SOUND = {
    "src/README.md": "`src/{plan,base}/`: `text.hpp`\n", "perf/README.md": "", "algorithms/README.md": "| AllReduce | `ring`, `ring2` | 2(n-1) |\n",
    "src/base/text.hpp": "struct Text {\n",
    "src/base/usage.def": 'TUTTI_ERROR(5003, NoGroup, "what", "causes", "remedy")\n',
    "src/plan/errors.cpp": 'a = invalidUsage(ErrorCode::NoGroup, "no (group)");\nb = remoteError("rank: ", why.text());\n',
    "src/comm/comm.cpp": '#include "src/base/text.hpp"\n#include "src/plan/plan.hpp"\n#include "tutti/tutti.h"\n',
    "src/plan/plan.hpp": "namespace tutti {\nstruct Plan {\n};\n}  // namespace tutti\n",
    "src/plan/declared.hpp": "",
    "src/parallel/tensor.cpp": '#include "src/plan/declared.hpp"\n',
    "perf/main.cpp": "#include <vector>\n",
    "perf/micro/main.cpp": '#include "src/base/text.hpp"\n',
    "algorithms/allreduce_ring.cpp": RING + RING.replace("Ring", "Ring2").replace("ring", "ring2"),
    "algorithms/registry.cpp": "  X(allreduce_ring, kAllReduceRing) \\\n  X(allreduce_ring, kAllReduceRing2)\n",
}
# Check, file, what is put in place of what (or the whole file), and what is said of it.
MISTAKES = [
    ("check_include_paths", "src/comm/comm.cpp", "src/base/text.hpp", "text.hpp",
     "src/comm/comm.cpp:1: includes text.hpp, which is not a path from the top of the tree"),
    ("check_include_paths", "src/plan/kernel.cu", None, '  # include "plan.hpp"\n',
     "src/plan/kernel.cu:1: includes plan.hpp, which is not a path from the top of the tree"),
    ("check_public_only", "perf/main.cpp", "<vector>", '"src/base/text.hpp"',
     "perf/main.cpp:1: is written on tutti.h alone and may not include src/base/text.hpp"),
    ("check_layers", "src/plan/plan.hpp", None, '#include "src/comm/comm.cpp"\n',
     "src/plan/plan.hpp:1: src/plan may not include src/comm"),
    ("check_layers", "src/plan/deep/in.cpp", None, '\n#include "src/comm/comm.cpp"\n',
     "src/plan/deep/in.cpp:2: src/plan may not include src/comm"),
    ("check_owners", "src/fresh/fresh.cpp", None, "",
     "src/fresh/fresh.cpp: tests/tidy/tidy.py does not say what its folder may include"),
    ("check_owners", "perf/micro/main.cpp", None, None,
     "tests/tidy/tidy.py: there is no source in perf/micro, which it names"),
    ("check_owners", "src/comm/comm.cpp", None, None, "tests/tidy/tidy.py: no file goes by its rule for src/comm"),
    ("check_readmes", "perf/README.md", None, None, "perf: neither it nor the folder above has a README.md"),
    ("check_registry", "algorithms/registry.cpp", "  X(allreduce_ring, kAllReduceRing2)", "",
     "algorithms/allreduce_ring.cpp: kAllReduceRing2 is not in registry.cpp"),
    ("check_registry", "algorithms/registry.cpp", "kAllReduceRing2", "kAllReduceTree",
     "algorithms/registry.cpp: kAllReduceTree is not defined in allreduce_ring.cpp"),
    ("check_registry", "algorithms/allreduce_tree.cpp", None, "const auto kTree = makeTree();\n",
     "algorithms/allreduce_tree.cpp: defines no algorithm"),
    ("check_table", "algorithms/README.md", ", `ring2`", "",
     "algorithms/README.md: no row for AllReduce ring2 of allreduce_ring.cpp"),
    ("check_table", "algorithms/README.md", "AllReduce", "Reduce",
     "algorithms/README.md: no row for AllReduce ring of allreduce_ring.cpp"),
    ("check_table", "algorithms/README.md", "`ring`", "`ring`, `tree`", "algorithms/README.md: there is no AllReduce tree"),
    ("check_table", "algorithms/allreduce_ring.cpp", '.name = "ring"', "kRingNames",
     "algorithms/allreduce_ring.cpp: algorithms have a .collective and a .name, these 2 and 1"),
    ("check_named_paths", "src/README.md", "plan,", "plan,walk,", "src/README.md:1: there is no src/walk"),
    ("check_named_paths", "src/README.md", "text.hpp", "texts.hpp", "src/README.md:1: there is no texts.hpp"),
    ("check_length", "src/plan/plan.hpp", None, "\n" * 451,
     "src/plan/plan.hpp: 451 lines; does it hold one idea? (at most 450)"),
    ("check_width", "src/plan/plan.hpp", None, "\n//" + "x" * 119, "src/plan/plan.hpp:2: 121 columns"),
    ("check_marks", "src/plan/plan.hpp", None, "\n// TO" "DO\n", "src/plan/plan.hpp:2: unfinished work is marked here"),
    ("check_types", "src/comm/comm.cpp", None, "namespace tutti {\nclass Plan final : public Base {\n",
     "tutti::Plan is defined in src/comm/comm.cpp and in src/plan/plan.hpp"),
    ("check_error_codes", "src/plan/errors.cpp", "ErrorCode::NoGroup, ", "",
     "src/plan/errors.cpp:1: invalidUsage names no kind of src/base/errors/*.def"),
    ("check_error_codes", "src/plan/errors.cpp", "NoGroup", "NoGroups",
     "src/plan/errors.cpp:1: invalidUsage names no kind of src/base/errors/*.def"),
    ("check_error_codes", "src/plan/errors.cpp", "invalidUsage", "remoteError",
     "src/plan/errors.cpp:1: remoteError has not the result of ErrorCode::NoGroup"),
    ("check_error_codes", "src/plan/errors.cpp", "why.text()", "why.message()",
     "src/plan/errors.cpp:2: remoteError names no kind of src/base/errors/*.def"),
]


class TidyTest(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.multiple(tidy, **RULES)
        patch.start()
        self.addCleanup(patch.stop)

    def complaints(self, files, checks=tidy.CHECKS):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return tidy.complaints_of(tidy.Tree(pathlib.Path(folder), sorted(files)), checks)

    def test_a_sound_tree_passes(self):
        self.assertEqual(self.complaints(SOUND), [])

    def test_every_check_reports_its_mistake(self):
        for check, name, before, after, complaint in MISTAKES:
            with self.subTest(check=check, complaint=complaint):
                files = dict(SOUND)
                if after is None:
                    del files[name]
                elif before is None:
                    files[name] = after
                else:
                    self.assertIn(before, files[name])
                    files[name] = files[name].replace(before, after, 1)
                self.assertIn(complaint, self.complaints(files, [getattr(tidy, check)]))

    def test_no_check_is_without_a_mistake(self):
        self.assertEqual({check.__name__ for check in tidy.CHECKS}, {row[0] for row in MISTAKES})

    def test_a_check_that_finds_nothing_to_look_at_fails(self):
        with mock.patch.multiple(tidy, MAY_INCLUDE={}, PUBLIC_ONLY=(), APART=(), DECLARATIONS=()):
            for check in tidy.CHECKS:
                with self.subTest(check=check.__name__):
                    self.assertEqual(self.complaints({"docs/page.md": "", "algorithms/README.md": ""}, [check]),
                                     [f"tests/tidy/tidy.py: {check.__name__} found nothing to look at"])


if __name__ == "__main__":
    unittest.main()
