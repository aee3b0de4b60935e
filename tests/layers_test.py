#!/usr/bin/env python3
"""The architecture, checked: which module includes which, and what no file may hold.

    layers_test.py [ROOT] [--only NAME] [--list] [--xml FILE]  checks the project in ROOT (by default that of this file)
    layers_test.py --self-test                                 plants one offence of each kind into small projects and expects the check to find it

The layers are the list of modules in CMakeLists.txt, lowest first. The DEPENDS line of each src/MODULE/CMakeLists.txt
names the modules that it may include directly. Python's standard library only.
"""

import re
import sys
import tempfile
from pathlib import Path

from support import cases

SOURCE_ENDINGS = {".h", ".cpp"}
TEXT_ENDINGS = {".h", ".cpp", ".md", ".txt", ".cmake", ".py", ".toml", ".json", ".sh", ""}
PROJECT_PARTS = ["src", "tests", "examples", "bench", "docs", "configs", "cmake", ".ci"]

# Headers that cost seconds to compile: each library lives in at most two sources, after a narrow header of ours.
HEAVY_HEADERS = {
    "CLI11": re.compile(r'#\s*include\s*[<"]CLI/'),
    "toml++": re.compile(r'#\s*include\s*[<"]toml\+\+/'),
    "nlohmann-json": re.compile(r'#\s*include\s*[<"]nlohmann/json\.hpp'),
    "spdlog": re.compile(r'#\s*include\s*[<"]spdlog/'),
    "oneDNN": re.compile(r'#\s*include\s*[<"](?:oneapi/dnnl/)?dnnl'),
}
MOST_SOURCES_OF_A_HEAVY_HEADER = 2

# Folders of libraries whose headers are included in quotes.
FOREIGN_FOLDERS = {"oneapi", "hwy"}

MOST_LINES = 500
# Sources that stay longer, each with the reason. Tests are only warned about.
LONG_SOURCES = {}

# Cycles between files that are not broken yet, each by one of its files.
KNOWN_CYCLES = set()

OWN_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
MACHINE_PATH = re.compile(r"(?<![\w.$}-])/(?:work|tmp|home|root|Users)(?:/|\b)")


class Layers:
    """What the CMake files say: the modules from the lowest up, what each may include, and what its tests may include besides."""

    def __init__(self, root):
        top = (root / "CMakeLists.txt").read_text()
        listed = re.search(r"set\(modules\s+([^)]*)\)", top)
        self.modules = listed.group(1).split() if listed else []
        self.depends = {}
        self.test_depends = {}
        for path in sorted((root / "src").rglob("CMakeLists.txt")):
            module = path.parent.relative_to(root / "src").as_posix()
            text = re.sub(r"#.*", "", path.read_text())
            call = re.search(r"tessera_module\(([^)]*)\)", text)
            words = call.group(1).split() if call else [module]
            self.depends[module] = words_after("DEPENDS", words)
            links = re.findall(r"target_link_libraries\(\w+_test PRIVATE ([^)]*)\)", text)
            self.test_depends[module] = [self.module_of_target(word) for link in links for word in link.split()]

    def module_of_target(self, target):
        """"tessera_shard_layout" is shard/layout; the test support of a module counts as the module."""
        name = target.removeprefix("tessera_").removesuffix("_testing")
        return next((module for module in self.modules if module.replace("/", "_") == name), name)

    def module_of(self, path):
        """The module of a file, given relative to src/: the longest one that is a folder above it."""
        parts = path.split("/")
        for end in range(len(parts) - 1, 0, -1):
            if "/".join(parts[:end]) in self.modules:
                return "/".join(parts[:end])
        return parts[0]

    def reach(self, module, extra=()):
        """`module`, its DEPENDS, and theirs."""
        reached, open_modules = set(), [module, *extra]
        while open_modules:
            current = open_modules.pop()
            if current not in reached:
                reached.add(current)
                open_modules += self.depends.get(current, [])
        return reached

    def may_include(self, module, is_test):
        """Production code includes what DEPENDS names; a test also what its libraries reach."""
        if is_test:
            return self.reach(module, self.test_depends.get(module, []))
        return {module, *self.depends.get(module, [])}


def words_after(keyword, words):
    """The words of a CMake call between `keyword` and the next keyword."""
    if keyword not in words:
        return []
    taken = []
    for word in words[words.index(keyword) + 1 :]:
        if word.isupper():
            break
        taken.append(word)
    return taken


def files_of(root, parts, endings):
    for part in parts:
        for path in sorted((root / part).rglob("*")):
            if path.is_file() and path.suffix in endings and "__pycache__" not in path.parts:
                yield path


def is_test(path):
    return path.stem.endswith("_test") or "testing" in path.parts


def check_depends(layers):
    """DEPENDS names modules on lower layers only. Since the layers are a line, a cycle always has a step upward in it."""
    for module, depends in layers.depends.items():
        if module not in layers.modules:
            yield f"src/{module}: the list of modules in CMakeLists.txt does not name it"
            continue
        for other in depends:
            if other not in layers.modules:
                yield f"src/{module}/CMakeLists.txt: DEPENDS {other}, which is not a module of CMakeLists.txt"
            elif module in layers.reach(other):
                yield f"src/{module}/CMakeLists.txt: DEPENDS {other}, which depends on {module}: a cycle"
            elif layers.modules.index(other) >= layers.modules.index(module):
                yield f"src/{module}/CMakeLists.txt: DEPENDS {other}, which is on a higher layer in CMakeLists.txt"


def check_unused_depends(root, layers):
    """A DEPENDS line names nothing that no production file of the module includes: it is the architecture diagram."""
    used = {module: set() for module in layers.depends}
    for path in files_of(root, ["src"], SOURCE_ENDINGS):
        if not is_test(path):
            module = layers.module_of(path.relative_to(root / "src").as_posix())
            used.setdefault(module, set()).update(layers.module_of(i) for i in OWN_INCLUDE.findall(path.read_text()))
    for module, depends in layers.depends.items():
        for other in depends:
            if other not in used[module]:
                yield f"src/{module}/CMakeLists.txt: DEPENDS {other}, of which src/{module} includes nothing"


def check_includes(root, layers):
    for path in files_of(root, ["src"], SOURCE_ENDINGS):
        module = layers.module_of(path.relative_to(root / "src").as_posix())
        test = is_test(path)
        allowed = layers.may_include(module, test)
        for include in OWN_INCLUDE.findall(path.read_text()):
            where = f"{path.relative_to(root)}: includes \"{include}\""
            if include.split("/")[0] in FOREIGN_FOLDERS:
                continue
            if "/" not in include or not (root / "src" / include).is_file():
                yield f"{where}, which is not a file of src/: own headers are included as \"module/file.h\""
            elif not test and "testing" in include.split("/"):
                yield f"{where}: only tests may use test support"
            elif (other := layers.module_of(include)) not in allowed:
                yield f"{where}, but the DEPENDS of {module} does not name {other}: it names {' '.join(sorted(allowed))}"


def check_file_cycles(root):
    """No file needs itself: an include of x.h also counts as a need of x.cpp, in which the functions of x.h are."""
    needs = {}
    for path in files_of(root, ["src"], SOURCE_ENDINGS):
        if is_test(path):
            continue
        unit = path.relative_to(root / "src").with_suffix("").as_posix()
        needs.setdefault(unit, set()).update(i.removesuffix(".h") for i in OWN_INCLUDE.findall(path.read_text()))
    for group in strongly_connected({unit: sorted(others - {unit}) for unit, others in needs.items()}):
        if len(group) > 1 and not KNOWN_CYCLES & set(group):
            yield f"these files include each other in a cycle: {' '.join(sorted(group))}"


def strongly_connected(graph):
    """Tarjan's algorithm, without recursion."""
    index, low, stack, on_stack, groups = {}, {}, [], set(), []
    for root in sorted(graph):
        work = [(root, iter(graph[root]))] if root not in index else []
        if work:
            index[root] = low[root] = len(index)
            stack.append(root)
            on_stack.add(root)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in graph:
                    continue
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(graph[other])))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while not group or group[-1] != node:
                        group.append(stack.pop())
                        on_stack.discard(group[-1])
                    groups.append(group)
    return groups


def check_heavy_headers(root):
    for library, pattern in HEAVY_HEADERS.items():
        users = [path.relative_to(root) for path in files_of(root, ["src"], SOURCE_ENDINGS) if pattern.search(path.read_text())]
        for header in (path for path in users if path.suffix == ".h"):
            yield f"{header}: includes {library}, which every file that includes this header then compiles: include it in a source"
        if len(users) > MOST_SOURCES_OF_A_HEAVY_HEADER:
            names = ", ".join(str(path) for path in users)
            yield f"{library} is included in {len(users)} sources ({names}), at most {MOST_SOURCES_OF_A_HEAVY_HEADER}: put it after a narrow header"


def long_files(root):
    for path in files_of(root, ["src"], SOURCE_ENDINGS):
        lines = path.read_text().count("\n")
        if lines > MOST_LINES:
            yield path.relative_to(root).as_posix(), lines


def check_lengths(root):
    for path, lines in long_files(root):
        if not path.endswith("_test.cpp") and path not in LONG_SOURCES:
            yield f"{path}: {lines} lines, at most {MOST_LINES}: split it by family, or give the reason in LONG_SOURCES of tests/layers_test.py"


def warn_of_long_tests(root):
    for path, lines in long_files(root):
        if path.endswith("_test.cpp"):
            yield f"{path}: {lines} lines: above {MOST_LINES} a test is hard to read"


def check_machine_paths(root):
    top = [root / name for name in ["dev", "README.md", "CMakeLists.txt", "CMakePresets.json", ".clang-tidy", ".clang-format"]]
    for path in [*(p for p in top if p.is_file()), *files_of(root, PROJECT_PARTS, TEXT_ENDINGS)]:
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if MACHINE_PATH.search(line):
                yield f"{path.relative_to(root)}:{number}: names a path of one machine: {line.strip()[:100]}"


def check_type_names(root):
    """Two types of one name in one namespace are one type to the linker, which then takes the functions of either."""
    places = {}
    for path in files_of(root, ["src"], SOURCE_ENDINGS):
        if is_test(path):
            continue
        namespace, hidden = "", 0
        for line in path.read_text().splitlines():
            if opened := re.match(r"namespace ([\w:]+) \{", line):
                namespace = opened.group(1)
            hidden += (line == "namespace {") - (line == "}  // namespace")
            defined = re.match(r"(?:struct|class) (\w+)(?: final)?(?: :[^;]*)? \{", line)
            if defined and not hidden:
                places.setdefault((namespace, defined.group(1)), []).append(path.relative_to(root).as_posix())
    for (namespace, name), files in sorted(places.items()):
        if len(files) > 1:
            yield f"{namespace}::{name} is defined in {' and '.join(sorted(files))}: give one another name"


def checks_of(root):
    layers = Layers(root)
    if not layers.modules:
        return {"modules": ["CMakeLists.txt: no list of modules `set(modules ...)`"]}
    return {
        "depends": check_depends(layers), "includes": check_includes(root, layers), "unused depends": check_unused_depends(root, layers),
        "file cycles": check_file_cycles(root), "heavy headers": check_heavy_headers(root), "lengths": check_lengths(root),
        "machine paths": check_machine_paths(root), "type names": check_type_names(root),
    }


# ---- the self-test ----

CLEAN = {
    "CMakeLists.txt": "set(modules base graph\n  ops)\n",
    "src/base/CMakeLists.txt": "tessera_module(base LIBRARIES fmt::fmt)\n",
    "src/base/error.h": "#pragma once\n",
    "src/graph/CMakeLists.txt": "tessera_module(graph DEPENDS base)\n",
    "src/graph/graph.h": '#include "base/error.h"\n',
    "src/ops/CMakeLists.txt": "tessera_module(ops DEPENDS graph base LIBRARIES CLI11::CLI11)\n",
    "src/ops/operator.cpp": '#include <vector>\n#include "base/error.h"\n#include "graph/graph.h"\n',
}

# What is written over CLEAN, and a piece of the message that must come.
PLANTED = [
    ({"src/base/up.cpp": '#include "graph/graph.h"\n'},
     'src/base/up.cpp: includes "graph/graph.h", but the DEPENDS of base does not name graph'),
    ({"src/graph/up_test.cpp": '#include "ops/operator.cpp"\n'}, "does not name ops"),
    ({"src/ops/CMakeLists.txt": "tessera_module(ops DEPENDS graph)\n"}, "the DEPENDS of ops does not name base"),
    ({"src/ops/CMakeLists.txt": "tessera_module(ops DEPENDS graph base spare)\n", "src/spare/CMakeLists.txt": "tessera_module(spare)\n",
      "CMakeLists.txt": "set(modules base graph spare ops)\n"}, "DEPENDS spare, of which src/ops includes nothing"),
    ({"src/base/testing/clock.h": "", "src/graph/clock.cpp": '#include "base/testing/clock.h"\n'}, "only tests may use test support"),
    ({"src/base/a.h": '#include "base/b.h"\n', "src/base/b.cpp": '#include "base/a.h"\n', "src/base/b.h": ""},
     "these files include each other in a cycle: base/a base/b"),
    ({"src/graph/wrong.cpp": '#include "error.h"\n'}, 'own headers are included as "module/file.h"'),
    ({"src/graph/wrong.cpp": '#include "base/none.h"\n'}, "not a file of src/"),
    ({"src/base/CMakeLists.txt": "tessera_module(base DEPENDS ops)\n"}, "DEPENDS ops, which depends on base: a cycle"),
    ({"CMakeLists.txt": "set(modules base ops graph)\n"}, "DEPENDS graph, which is on a higher layer"),
    ({"src/graph/CMakeLists.txt": "tessera_module(graph DEPENDS base attic)\n"}, "DEPENDS attic, which is not a module"),
    ({"src/attic/CMakeLists.txt": "tessera_module(attic)\n"}, "src/attic: the list of modules in CMakeLists.txt does not name it"),
    ({"src/base/a.h": "#include <CLI/CLI.hpp>\n"}, "src/base/a.h: includes CLI11"),
    ({f"src/base/{n}.cpp": "#include <toml++/toml.h>\n" for n in "abc"}, "toml++ is included in 3 sources"),
    ({f"src/base/{n}.cpp": "#include <oneapi/dnnl/dnnl.h>\n" for n in "abc"}, "oneDNN is included in 3 sources"),
    ({"src/base/long.cpp": "\n" * (MOST_LINES + 1)}, f"src/base/long.cpp: {MOST_LINES + 1} lines"),
    ({f"src/{module}/part.h": "namespace t {\n\nstruct Part {\n" for module in ["base", "graph"]},
     "t::Part is defined in src/base/part.h and src/graph/part.h"),
    ({"docs/where.md": "Files lie in " + "/wor" + "k/main.\n"}, "docs/where.md:1: names a path of one machine"),
]

# What must pass: a test that links a module of its own, a nested module, a long test, paths that only look like a machine's.
HARMLESS = [
    {"src/graph/CMakeLists.txt": "tessera_module(graph DEPENDS base)\ntarget_link_libraries(graph_test PRIVATE tessera_ops)\n",
     "src/ops/operator.h": "", "src/graph/wide_test.cpp": '#include "ops/operator.h"\n',
     "src/graph/testing/wide.h": '#include "ops/operator.h"\n'},
    {"CMakeLists.txt": "set(modules base graph/text graph ops)\n",
     "src/graph/text/CMakeLists.txt": "tessera_module(graph/text DEPENDS base)\n",
     "src/graph/text/print.h": '#include "base/error.h"\n',
     "src/graph/CMakeLists.txt": "tessera_module(graph DEPENDS graph/text base)\n",
     "src/graph/print.cpp": '#include "graph/text/print.h"\n'},
    {"src/base/long_test.cpp": "\n" * (MOST_LINES + 1)},
    {f"src/base/{n}.cpp": "namespace t {\nnamespace {\n\nstruct Part {\n};\n\n}  // namespace\n" for n in "ab"},
    {"docs/paths.md": "See src/tmp_file.cpp, ./home/page, and/or out/work/.\n"},
    {f"src/base/{n}.cpp": "#include <spdlog/spdlog.h>\n" for n in "ab"},
]


def offences_of(files):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {**CLEAN, **files}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return [offence for check in checks_of(root).values() for offence in check]


def self_test():
    failures = []
    for files in [{}, *HARMLESS]:
        if found := offences_of(files):
            failures.append(f"{list(files)} is legal, but: {found}")
    for files, expected in PLANTED:
        found = offences_of(files)
        if not any(expected in offence for offence in found):
            failures.append(f"{list(files)}: expected '{expected}', found {found}")
    print("\n".join(failures) or f"{len(PLANTED)} planted offences found, {len(HARMLESS) + 1} legal projects passed")
    return 1 if failures else 0


def main():
    parser = cases.parser(__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    for warning in warn_of_long_tests(options.root.resolve()):
        print("warning:", warning)
    return cases.run(cases.of_checks(checks_of(options.root.resolve())), options, quiet=True)


if __name__ == "__main__":
    sys.exit(main())
