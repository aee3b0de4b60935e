#!/usr/bin/env python3
"""The architecture of the house, checked: who includes whom, and what no file may hold.

    floors_test.py [ROOT]       checks the project in ROOT (by default the one that this file stands in)
    floors_test.py --self-test  plants one offence of each kind into small projects and expects the check to find it

The floors are the list of rooms in CMakeLists.txt, lowest first. The DEPENDS line of each src/ROOM/CMakeLists.txt says which rooms it may
include; a room reaches what its DEPENDS reach. Python's standard library only.
"""

import re
import sys
import tempfile
from pathlib import Path

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

MOST_LINES = 500
# Sources that stay longer, each with the reason. Tests are only warned about.
LONG_SOURCES = {}

OWN_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
MACHINE_PATH = re.compile(r"(?<![\w.$}-])/(?:work|tmp|home|root|Users)(?:/|\b)")


class Floors:
    """What the CMake files say: the rooms from the lowest up, what each may include, and what its tests may include besides."""

    def __init__(self, root):
        top = (root / "CMakeLists.txt").read_text()
        listed = re.search(r"foreach\(room ([^)]*)\)", top)
        self.rooms = listed.group(1).split() if listed else []
        self.depends = {}
        self.test_depends = {}
        for path in sorted((root / "src").glob("*/CMakeLists.txt")):
            text = re.sub(r"#.*", "", path.read_text())
            call = re.search(r"tessera_room\(([^)]*)\)", text)
            words = call.group(1).split() if call else [path.parent.name]
            self.depends[path.parent.name] = words_after("DEPENDS", words)
            links = re.findall(r"target_link_libraries\(\w+_test PRIVATE ([^)]*)\)", text)
            rooms = [word.removeprefix("tessera_") for link in links for word in link.split()]
            self.test_depends[path.parent.name] = rooms

    def reach(self, room, extra=()):
        """The rooms that `room` may include: itself, its DEPENDS, and theirs."""
        reached, open_rooms = set(), [room, *extra]
        while open_rooms:
            current = open_rooms.pop()
            if current not in reached:
                reached.add(current)
                open_rooms += self.depends.get(current, [])
        return reached


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


def check_depends(floors):
    """DEPENDS names rooms on lower floors only. Since the floors are a line, a circle always has a step upward in it."""
    for room, depends in floors.depends.items():
        if room not in floors.rooms:
            yield f"src/{room}: the list of rooms in CMakeLists.txt does not name it"
            continue
        for other in depends:
            if other not in floors.rooms:
                yield f"src/{room}/CMakeLists.txt: DEPENDS {other}, which is no room of CMakeLists.txt"
            elif room in floors.reach(other):
                yield f"src/{room}/CMakeLists.txt: DEPENDS {other}, which depends on {room} in a circle"
            elif floors.rooms.index(other) >= floors.rooms.index(room):
                yield f"src/{room}/CMakeLists.txt: DEPENDS {other}, which stands on a higher floor in CMakeLists.txt"


def check_includes(root, floors):
    for path in files_of(root, ["src"], SOURCE_ENDINGS):
        room = path.relative_to(root / "src").parts[0]
        is_test = path.stem.endswith(("_test", "_for_tests"))
        allowed = floors.reach(room, floors.test_depends.get(room, []) if is_test else [])
        for include in OWN_INCLUDE.findall(path.read_text()):
            where = f"{path.relative_to(root)}: includes \"{include}\""
            other = include.split("/")[0]
            if other in FOREIGN_FOLDERS:
                continue
            if "/" not in include or not (root / "src" / include).is_file():
                yield f"{where}, which is no file of src/: own headers are included as \"room/file.h\""
            elif other not in allowed:
                yield f"{where}, but the DEPENDS of {room} does not reach {other}: it reaches {' '.join(sorted(allowed))}"


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
        if not path.endswith("_test.cpp") and path not in LONG_SOURCES:
            yield f"{path}: {lines} lines, at most {MOST_LINES}: split it by family, or give the reason in LONG_SOURCES of tests/floors_test.py"


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
        if path.name.endswith(("_test.cpp", "_for_tests.h")) or "testing" in path.parts:
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


def offences(root):
    floors = Floors(root)
    if not floors.rooms:
        return ["CMakeLists.txt: no list of rooms `foreach(room ...)`"]
    checks = [check_depends(floors), check_includes(root, floors), check_heavy_headers(root), check_lengths(root), check_machine_paths(root),
              check_type_names(root)]
    return [offence for check in checks for offence in check]


# ---- the self-test ----

CLEAN = {
    "CMakeLists.txt": "foreach(room base graph ops)\nendforeach()\n",
    "src/base/CMakeLists.txt": "tessera_room(base LIBRARIES fmt::fmt)\n",
    "src/base/error.h": "#pragma once\n",
    "src/graph/CMakeLists.txt": "tessera_room(graph DEPENDS base)\n",
    "src/graph/graph.h": '#include "base/error.h"\n',
    "src/ops/CMakeLists.txt": "tessera_room(ops DEPENDS graph LIBRARIES CLI11::CLI11)\n",
    "src/ops/operator.cpp": '#include <vector>\n#include "base/error.h"\n#include "graph/graph.h"\n',
}

# What is written over CLEAN, and a piece of the message that must come.
PLANTED = [
    ({"src/base/up.cpp": '#include "graph/graph.h"\n'}, 'src/base/up.cpp: includes "graph/graph.h", but the DEPENDS of base does not reach graph'),
    ({"src/graph/up_test.cpp": '#include "ops/operator.cpp"\n'}, "does not reach ops"),
    ({"src/graph/wrong.cpp": '#include "error.h"\n'}, 'own headers are included as "room/file.h"'),
    ({"src/graph/wrong.cpp": '#include "base/none.h"\n'}, "no file of src/"),
    ({"src/base/CMakeLists.txt": "tessera_room(base DEPENDS ops)\n"}, "DEPENDS ops, which depends on base in a circle"),
    ({"CMakeLists.txt": "foreach(room base ops graph)\nendforeach()\n"}, "DEPENDS graph, which stands on a higher floor"),
    ({"src/graph/CMakeLists.txt": "tessera_room(graph DEPENDS base attic)\n"}, "DEPENDS attic, which is no room"),
    ({"src/attic/CMakeLists.txt": "tessera_room(attic)\n"}, "src/attic: the list of rooms in CMakeLists.txt does not name it"),
    ({"src/base/a.h": "#include <CLI/CLI.hpp>\n"}, "src/base/a.h: includes CLI11"),
    ({f"src/base/{n}.cpp": "#include <toml++/toml.h>\n" for n in "abc"}, "toml++ is included in 3 sources"),
    ({f"src/base/{n}.cpp": "#include <oneapi/dnnl/dnnl.h>\n" for n in "abc"}, "oneDNN is included in 3 sources"),
    ({"src/base/long.cpp": "\n" * (MOST_LINES + 1)}, f"src/base/long.cpp: {MOST_LINES + 1} lines"),
    ({f"src/{room}/part.h": "namespace t {\n\nstruct Part {\n" for room in ["base", "graph"]}, "t::Part is defined in src/base/part.h and src/graph/part.h"),
    ({"docs/where.md": "Files lie in " + "/wor" + "k/main.\n"}, "docs/where.md:1: names a path of one machine"),
]

# What must pass: a test that links a room of its own, a long test, paths that only look like a machine's.
HARMLESS = [
    {"src/graph/CMakeLists.txt": "tessera_room(graph DEPENDS base)\ntarget_link_libraries(graph_test PRIVATE tessera_ops)\n",
     "src/ops/operator.h": "", "src/graph/wide_test.cpp": '#include "ops/operator.h"\n', "src/graph/wide_for_tests.h": '#include "ops/operator.h"\n'},
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
        return offences(root)


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


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    for warning in warn_of_long_tests(root):
        print("warning:", warning)
    found = offences(root)
    print("\n".join(found) or "every include goes down, nothing is where it must not be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
