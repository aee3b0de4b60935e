#!/usr/bin/env python3
"""The architecture, checked: which layer and which module includes which, and what no file may hold.

    layers_test.py [ROOT] [--only NAME] [--list] [--xml FILE]  checks the project in ROOT (by default that of this file)
    layers_test.py --self-test                                 plants one offence of each kind into small projects and expects the check to find it

A folder of src is a layer; LAYERS says which layers each may include. A module is a folder of a layer; `set(modules ...)` in
CMakeLists.txt lists them, lowest first, and DEPENDS of its tessera_module in src/LAYER/CMakeLists.txt names the modules that
it may include directly. Headers in MODULE/internal are for the module alone. Python's standard library only.
"""

import re
import sys
import tempfile
from pathlib import Path

from support import cases

SOURCE_ENDINGS = {".h", ".cpp"}
TEXT_ENDINGS = {".h", ".cpp", ".md", ".txt", ".cmake", ".py", ".toml", ".json", ".sh", ""}
PROJECT_PARTS = ["src", "tests", "examples", "bench", "docs", "configs", "cmake", ".ci"]

# Headers that cost seconds to compile: each library lives in at most two sources, behind a narrow header of ours.
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

# The layers, lowest first, and those that each may include. Of two that are side by side neither includes the other.
BELOW_COMPILER = ["base", "kernels", "cluster", "ir", "sharding", "task_graph"]
LAYERS = {
    "base": [],
    "kernels": ["base"],
    "cluster": ["base", "kernels"],
    "ir": ["base", "kernels", "cluster"],
    "sharding": ["base", "kernels", "cluster", "ir"],
    "task_graph": ["base", "kernels", "cluster", "ir", "sharding"],
    "compiler": BELOW_COMPILER,  # beside simulator
    "simulator": BELOW_COMPILER,
    "planner": [*BELOW_COMPILER, "compiler", "simulator"],  # beside runtime
    "runtime": BELOW_COMPILER,
    "training": [*BELOW_COMPILER, "compiler", "simulator", "planner", "runtime"],
    "frontend": [*BELOW_COMPILER, "compiler", "simulator", "planner", "runtime", "training"],
    "tools": [*BELOW_COMPILER, "compiler", "simulator", "planner", "runtime", "training", "frontend"],
}
MOST_FOLDERS_OF_SRC = 14

# Headers outside of internal/ that no other module includes: files or folders, each with the reason.
PUBLIC_WITHOUT_USERS = {
    "src/kernels": "its folders are devices, and a folder of a device is added or left out as a whole",
    "src/ir/ops/einsum.h": "programs of users write products of several operands with it",
    "src/training/data/text_dataset.h": "programs of users make datasets of it",
    "src/runtime/comm/collective_backend.h": "a library of collectives implements it",
}

# A longer source is only warned about, and fails above the second number. Tests are only warned about.
MOST_LINES = 500
GROSS_LINES = 1000

# Cycles between files that are not broken yet, each by one of its files.
KNOWN_CYCLES = set()

OWN_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
MACHINE_PATH = re.compile(r"(?<![\w.$}-])/(?:work|tmp|home|root|Users)(?:/|\b)")


class Layers:
    """What the CMake files say: the modules from the lowest up, what each may include, and what its tests may include besides."""

    CALL = re.compile(r"tessera_module\(([^)]*)\)")

    def __init__(self, root):
        top = (root / "CMakeLists.txt").read_text()
        listed = re.search(r"set\(modules\s+([^)]*)\)", top)
        self.modules = listed.group(1).split() if listed else []
        self.depends = {}
        self.test_depends = {}
        for path in sorted((root / "src").rglob("CMakeLists.txt")):
            text = re.sub(r"#.*", "", path.read_text())
            for call in self.CALL.findall(text):
                words = call.split()
                self.depends[words[0]] = words_after("DEPENDS", words)
                self.test_depends[words[0]] = [self.module_of_target(word) for word in words_after("TEST_LIBRARIES", words)]

    def module_of_target(self, target):
        """"tessera_sharding_layout" is sharding/layout; the test support of a module counts as the module."""
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
        if re.fullmatch(r"[A-Z_]+", word):
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


def layer_of(path):
    """The layer of a module, or of a file given relative to src/."""
    return path.split("/")[0]


def check_layers(root, layers):
    """Each folder of src is a layer of LAYERS, and production code includes only the layers that it names."""
    folders = sorted(path.name for path in (root / "src").iterdir() if path.is_dir())
    if len(folders) > MOST_FOLDERS_OF_SRC:
        yield f"src: {len(folders)} folders, at most {MOST_FOLDERS_OF_SRC}: a module is a folder of a layer"
    for folder in folders:
        if folder not in LAYERS:
            yield f"src/{folder}: is no layer: LAYERS of tests/layers_test.py says which there are"
    for module in layers.modules:
        if layer_of(module) not in LAYERS:
            yield f"CMakeLists.txt: the module {module} is in no layer"
    for path in files_of(root, ["src"], SOURCE_ENDINGS):
        layer = layer_of(path.relative_to(root / "src").as_posix())
        if is_test(path) or layer not in LAYERS:
            continue
        for include in OWN_INCLUDE.findall(path.read_text()):
            other = layer_of(include)
            if other in LAYERS and other != layer and other not in LAYERS[layer]:
                yield f"{path.relative_to(root)}: includes \"{include}\": {layer} may not include {other}, only {' '.join(LAYERS[layer])}"


def check_depends(layers):
    """DEPENDS names lower modules only. Since the modules are a line, a cycle always has a step upward in it."""
    for module, depends in layers.depends.items():
        if module not in layers.modules:
            yield f"{module}: the list of modules in CMakeLists.txt does not name it"
            continue
        for other in depends:
            if other not in layers.modules:
                yield f"{module}: DEPENDS {other}, which is not a module of CMakeLists.txt"
            elif module in layers.reach(other):
                yield f"{module}: DEPENDS {other}, which depends on {module}: a cycle"
            elif layers.modules.index(other) >= layers.modules.index(module):
                yield f"{module}: DEPENDS {other}, which is higher in CMakeLists.txt"
    for module in layers.modules:
        if module not in layers.depends:
            yield f"CMakeLists.txt: the module {module} has no tessera_module in src/{layer_of(module)}/CMakeLists.txt"


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
                yield f"{module}: DEPENDS {other}, of which src/{module} includes nothing"


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
                yield f"{where}, which is not a file of src/: own headers are included as \"layer/module/file.h\""
            elif not test and "testing" in include.split("/"):
                yield f"{where}: only tests may use test support"
            elif (other := layers.module_of(include)) not in allowed:
                yield f"{where}, but the DEPENDS of {module} does not name {other}: it names {' '.join(sorted(allowed))}"


def check_internal(root, layers):
    """A header in internal/ is included from its own module only; each other one, but test support, from another module."""
    used = set()
    for path in files_of(root, ["src", "tests", "bench", "examples"], SOURCE_ENDINGS):
        name = path.relative_to(root).as_posix()
        module = layers.module_of(name[4:]) if name.startswith("src/") else None
        for include in re.findall(r'^\s*#\s*include\s*"(?:(?:\.\./)*src/)?([^"]+)"', path.read_text(), re.MULTILINE):
            other = layers.module_of(include)
            if not (root / "src" / include).is_file() or other == module:
                continue
            used.add(include)
            if "internal" in include[len(other):].split("/"):
                yield f"{name}: includes \"{include}\", which is internal to {other}"
    for path in files_of(root, ["src"], {".h"}):
        name = path.relative_to(root / "src").as_posix()
        module = layers.module_of(name)
        is_private = {"internal", "testing"} & set(name[len(module):].split("/"))
        has_reason = any(f"src/{name}/".startswith(f"{kept}/") for kept in PUBLIC_WITHOUT_USERS)
        if not is_private and not has_reason and name not in used:
            yield f"src/{name}: only {module} includes it: put it into src/{module}/internal, or give the reason in PUBLIC_WITHOUT_USERS"


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
            yield f"{library} is included in {len(users)} sources ({names}), at most {MOST_SOURCES_OF_A_HEAVY_HEADER}: put it behind a narrow header"


def long_files(root):
    for path in files_of(root, ["src"], SOURCE_ENDINGS):
        lines = path.read_text().count("\n")
        if lines > MOST_LINES:
            yield path.relative_to(root).as_posix(), lines


def check_lengths(root):
    for path, lines in long_files(root):
        if not path.endswith("_test.cpp") and lines > GROSS_LINES:
            yield f"{path}: {lines} lines, at most {GROSS_LINES}: divide it by what it does"


def advice(root):
    for path, lines in long_files(root):
        yield f"{path}: {lines} lines: above {MOST_LINES} a file is hard to read"


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
        "layers": check_layers(root, layers), "depends": check_depends(layers), "includes": check_includes(root, layers),
        "unused depends": check_unused_depends(root, layers), "internal headers": check_internal(root, layers),
        "file cycles": check_file_cycles(root), "heavy headers": check_heavy_headers(root), "lengths": check_lengths(root),
        "machine paths": check_machine_paths(root), "type names": check_type_names(root),
    }


# ---- the self-test ----

# base (with the nested module base/solver), kernels, ir/graph, ir/ops; every header outside of internal/ has a user.
CLEAN = {
    "CMakeLists.txt": "set(modules base base/solver kernels ir/graph\n  ir/ops)\n",
    "src/base/CMakeLists.txt": "# Modules.\ntessera_module(base LIBRARIES fmt::fmt)\n\ntessera_module(base/solver DEPENDS base)\n",
    "src/base/error.h": "#pragma once\n",
    "src/base/solver/solve.h": '#include "base/error.h"\n',
    "src/kernels/CMakeLists.txt": "tessera_module(kernels DEPENDS base)\n",
    "src/kernels/cpu/loops.h": '#include "base/error.h"\n',
    "src/ir/CMakeLists.txt": "tessera_module(ir/graph DEPENDS base)\ntessera_module(ir/ops DEPENDS ir/graph base/solver base LIBRARIES CLI11::CLI11)\n",
    "src/ir/graph/graph.h": '#include "base/error.h"\n#include "ir/graph/internal/names.h"\n',
    "src/ir/graph/internal/names.h": "",
    "src/ir/ops/operator.cpp": '#include <vector>\n#include "base/error.h"\n#include "base/solver/solve.h"\n#include "ir/graph/graph.h"\n',
}
OPS = "tessera_module(ir/graph DEPENDS base)\ntessera_module(ir/ops DEPENDS {})\n"

# Two modules of two layers, the first of which includes the second.
def pair(upper, lower):
    return {
        "CMakeLists.txt": f"set(modules base base/solver kernels ir/graph ir/ops {lower} {upper})\n",
        f"src/{layer_of(lower)}/CMakeLists.txt": f"tessera_module({lower})\n",
        f"src/{layer_of(upper)}/CMakeLists.txt": f"tessera_module({upper} DEPENDS {lower})\n",
        f"src/{lower}/part.h": "",
        f"src/{upper}/use.cpp": f'#include "{lower}/part.h"\n',
    }


# What is written over CLEAN, and a piece of the message that must come.
PLANTED = [
    # Layers.
    ({"src/base/up.cpp": '#include "ir/graph/graph.h"\n'}, 'src/base/up.cpp: includes "ir/graph/graph.h": base may not include ir'),
    (pair("planner/search", "runtime/comm"), "planner may not include runtime"),
    (pair("runtime/comm", "planner/search"), "runtime may not include planner"),
    (pair("runtime/comm", "compiler/lower"), "runtime may not include compiler"),
    (pair("runtime/comm", "simulator/clock"), "runtime may not include simulator"),
    (pair("compiler/lower", "simulator/clock"), "compiler may not include simulator"),
    (pair("simulator/clock", "compiler/lower"), "simulator may not include compiler"),
    (pair("compiler/lower", "planner/search"), "compiler may not include planner"),
    (pair("training/engine", "tools/cli"), "training may not include tools"),
    ({"src/attic/part.cpp": ""}, "src/attic: is no layer"),
    ({"CMakeLists.txt": "set(modules base base/solver kernels ir/graph ir/ops attic/part)\n"}, "the module attic/part is in no layer"),
    ({f"src/layer{n}/part.cpp": "" for n in range(MOST_FOLDERS_OF_SRC - 2)}, f"src: {MOST_FOLDERS_OF_SRC + 1} folders"),
    # Modules.
    ({"src/base/up.cpp": '#include "ir/graph/graph.h"\n'}, 'includes "ir/graph/graph.h", but the DEPENDS of base does not name ir/graph'),
    ({"src/base/up.cpp": '#include "base/solver/solve.h"\n'}, "but the DEPENDS of base does not name base/solver"),
    ({"src/ir/graph/up_test.cpp": '#include "ir/ops/operator.cpp"\n'}, "does not name ir/ops"),
    ({"src/ir/CMakeLists.txt": OPS.format("ir/graph base/solver")}, "the DEPENDS of ir/ops does not name base"),
    ({"src/ir/CMakeLists.txt": OPS.format("ir/graph base/solver base ir/spare") + "tessera_module(ir/spare)\n",
      "CMakeLists.txt": "set(modules base base/solver kernels ir/graph ir/spare ir/ops)\n"},
     "ir/ops: DEPENDS ir/spare, of which src/ir/ops includes nothing"),
    ({"src/base/CMakeLists.txt": "tessera_module(base DEPENDS ir/ops)\ntessera_module(base/solver DEPENDS base)\n"},
     "base: DEPENDS ir/ops, which depends on base: a cycle"),
    ({"CMakeLists.txt": "set(modules base base/solver kernels ir/ops ir/graph)\n"}, "DEPENDS ir/graph, which is higher"),
    ({"src/ir/CMakeLists.txt": OPS.format("ir/graph base/solver base ir/attic")}, "DEPENDS ir/attic, which is not a module"),
    ({"src/ir/CMakeLists.txt": OPS.format("ir/graph base/solver base") + "tessera_module(ir/attic)\n"},
     "ir/attic: the list of modules in CMakeLists.txt does not name it"),
    ({"CMakeLists.txt": "set(modules base base/solver kernels ir/graph ir/ops ir/attic)\n"}, "the module ir/attic has no tessera_module"),
    # Headers for others, and for the module alone.
    ({"src/ir/ops/names.cpp": '#include "ir/graph/internal/names.h"\n'},
     'src/ir/ops/names.cpp: includes "ir/graph/internal/names.h", which is internal to ir/graph'),
    ({"src/ir/ops/names_test.cpp": '#include "ir/graph/internal/names.h"\n'}, "which is internal to ir/graph"),
    ({"tests/names_test.cpp": '#include "ir/graph/internal/names.h"\n'}, "which is internal to ir/graph"),
    ({"bench/names_bench.cpp": '#include "../src/ir/graph/internal/names.h"\n'}, "which is internal to ir/graph"),
    ({"src/ir/ops/part.h": "", "src/ir/ops/part.cpp": '#include "ir/ops/part.h"\n'}, "src/ir/ops/part.h: only ir/ops includes it"),
    # Files.
    ({"src/base/testing/clock.h": "", "src/ir/graph/clock.cpp": '#include "base/testing/clock.h"\n'}, "only tests may use test support"),
    ({"src/base/internal/a.h": '#include "base/internal/b.h"\n', "src/base/internal/b.cpp": '#include "base/internal/a.h"\n', "src/base/internal/b.h": ""},
     "these files include each other in a cycle: base/internal/a base/internal/b"),
    ({"src/ir/graph/wrong.cpp": '#include "error.h"\n'}, 'own headers are included as "layer/module/file.h"'),
    ({"src/ir/graph/wrong.cpp": '#include "base/none.h"\n'}, "not a file of src/"),
    ({"src/base/internal/a.h": "#include <CLI/CLI.hpp>\n"}, "src/base/internal/a.h: includes CLI11"),
    ({f"src/base/{n}.cpp": "#include <toml++/toml.h>\n" for n in "abc"}, "toml++ is included in 3 sources"),
    ({f"src/base/{n}.cpp": "#include <oneapi/dnnl/dnnl.h>\n" for n in "abc"}, "oneDNN is included in 3 sources"),
    ({"src/base/long.cpp": "\n" * (GROSS_LINES + 1)}, f"src/base/long.cpp: {GROSS_LINES + 1} lines"),
    ({f"src/{module}/internal/part.h": "namespace t {\n\nstruct Part {\n" for module in ["base", "ir/graph"]},
     "t::Part is defined in src/base/internal/part.h and src/ir/graph/internal/part.h"),
    ({"docs/where.md": "Files lie in " + "/wor" + "k/main.\n"}, "docs/where.md:1: names a path of one machine"),
]

# What must pass: a test with libraries of its own, planner over compiler, headers that only a test, a benchmark or a lesson
# of the project includes, a long test and a long source, paths that only look like a machine's.
HARMLESS = [
    {"src/ir/CMakeLists.txt": "tessera_module(ir/graph DEPENDS base TEST_LIBRARIES tessera_ir_ops ${CMAKE_DL_LIBS} -rdynamic)\n"
                              "tessera_module(ir/ops DEPENDS ir/graph base/solver base SLOW \"*Wide*\")\n",
     "src/ir/ops/operator.h": "", "src/ir/graph/wide_test.cpp": '#include "ir/ops/operator.h"\n',
     "src/ir/graph/testing/wide.h": '#include "ir/ops/operator.h"\n'},
    pair("planner/search", "compiler/lower"),
    pair("planner/search", "simulator/clock"),
    pair("training/engine", "runtime/runtime"),
    *({"src/ir/ops/part.h": "", f"{folder}/part.cpp": f'#include "{up}ir/ops/part.h"\n'}
      for folder, up in [("tests", ""), ("bench", "../src/"), ("examples/01", "")]),
    {"src/ir/graph/names_test.cpp": '#include "ir/graph/internal/names.h"\n'},
    {"src/base/long_test.cpp": "\n" * (GROSS_LINES + 1)},
    {"src/base/long.cpp": "\n" * (MOST_LINES + 1)},
    {f"src/base/{n}.cpp": "namespace t {\nnamespace {\n\nstruct Part {\n};\n\n}  // namespace\n" for n in "ab"},
    {"docs/paths.md": "See src/tmp_file.cpp, ./home/page, and/or out/work/.\n"},
    {f"src/base/{n}.cpp": "#include <spdlog/spdlog.h>\n" for n in "ab"},
]

# What is advice and no offence.
ADVICE = [({"src/base/long.cpp": "\n" * (MOST_LINES + 1)}, f"src/base/long.cpp: {MOST_LINES + 1} lines")]


def offences(root):
    return [offence for check in checks_of(root).values() for offence in check]


def found_in(files, check):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {**CLEAN, **files}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return list(check(root))


def offences_of(files):
    return found_in(files, offences)


def self_test():
    failures = []
    for files in [{}, *HARMLESS]:
        if found := offences_of(files):
            failures.append(f"{list(files)} is legal, but: {found}")
    for files, expected in PLANTED:
        found = offences_of(files)
        if not any(expected in offence for offence in found):
            failures.append(f"{list(files)}: expected '{expected}', found {found}")
    for files, expected in ADVICE:
        found = found_in(files, advice)
        if not any(expected in line for line in found):
            failures.append(f"{list(files)}: expected the advice '{expected}', found {found}")
    print("\n".join(failures) or f"{len(PLANTED)} planted offences found, {len(HARMLESS) + 1} legal projects passed")
    return 1 if failures else 0


def main():
    parser = cases.parser(__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    for line in advice(options.root.resolve()):
        print("advice:", line)
    return cases.run(cases.of_checks(checks_of(options.root.resolve())), options, quiet=True)


if __name__ == "__main__":
    sys.exit(main())
