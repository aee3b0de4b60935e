#!/usr/bin/env python3
"""The documentation, checked: every command runs, every path and name exists, every quoted line of code stands in a source.

    docs_test.py --program TESSERA --build DIR [ROOT]   checks README.md and docs/*.md of the project in ROOT
    docs_test.py --self-test                            plants one offence of each kind into small pages

Commands are the lines of ```sh blocks. `./dev tessera ...` is run with TESSERA as it stands, in the project's folder; the others must be in
RUN_ELSEWHERE or SHORTENED. Python's standard library only.
"""

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Commands that would run this very test again, and who runs them instead.
RUN_ELSEWHERE = {
    "./dev test": ".ci/run",
    # mpirun starts nothing for root, and no more processes than there are cores, unless its environment says so.
    "mpirun -n 4 build/release/src/cli/tessera train configs/gpt.toml --plan configs/plans/gpt.dp2-tp2.json --out build/mpi_run": "tests/mpi_test.py",
    "build/release/src/cli/tessera launch -n 4 --restarts 1 -- train configs/gpt.toml --plan configs/plans/gpt.dp2-tp2.json --out build/launched":
        "tests/faults_test.py",
}

# Commands that are run with fewer steps than a reader would see.
SHORTENED = {"./dev demo": ["demo", "--steps", "3"]}

DEADLINE_SECONDS = 250
MOST_LINES_OF_A_LESSON = 60
PROJECT_PARTS = ("src/", "docs/", "tests/", "examples/", "configs/", "cmake/", "bench/", ".ci/")

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"[A-Za-z]\w*(?:::\w+)?")


def pages(root):
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def blocks(page, language):
    return [body for name, body in BLOCK.findall(page.read_text()) if name == language]


def commands(page):
    lines = [line.strip() for body in blocks(page, "sh") for line in body.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def prose(page):
    """The page without its blocks of code."""
    return BLOCK.sub("", page.read_text())


def sources(root):
    return {path: path.read_text() for part in ("src", "examples") for ending in ("*.h", "*.cpp") for path in (root / part).rglob(ending)}


# ---- what is written ----


def check_links(root, page):
    for target in LINK.findall(prose(page)):
        if "://" not in target and not (page.parent / target).exists():
            yield f"links to {target}, which does not exist"


def is_path(text):
    return bool(re.fullmatch(r"[\w./-]+", text)) and (text.startswith(PROJECT_PARTS) or re.search(r"/\w+\.(?:h|cpp|md)$", text))


def check_paths(root, page):
    """A path begins at the project, or at src/ where it names a room: `ops/operator.h`."""
    in_blocks = [word for body in blocks(page, "text") for word in re.findall(r"(?<!\S)[\w./]+(?!\S)", body)]
    for text in CODE.findall(prose(page)) + in_blocks:
        if is_path(text) and not (root / text).exists() and not (root / "src" / text).exists():
            yield f"names {text}, which does not exist"


def check_names(root, page, all_sources):
    """Names with an underscore, a scope or a capital inside are names of the code."""
    for text in CODE.findall(prose(page)):
        if not NAME.fullmatch(text) or not re.search(r"_|::|[a-z][A-Z]", text):
            continue
        if not any(re.search(rf"\b{word}\b", source) for word in [text.split("::")[-1]] for source in all_sources.values()):
            yield f"names {text}, which stands in no source"


def check_quotes(root, page, all_sources):
    lines = {line.strip() for source in all_sources.values() for line in source.splitlines()}
    for body in blocks(page, "cpp"):
        for line in body.splitlines():
            if line.strip() not in lines:
                yield f"quotes '{line.strip()}', which stands in no source"


def check_lessons(root):
    for path in sorted((root / "examples").glob("*/main.cpp")):
        lines = path.read_text().count("\n")
        if lines > MOST_LINES_OF_A_LESSON:
            yield f"{path.relative_to(root)}: {lines} lines, at most {MOST_LINES_OF_A_LESSON}: a lesson fits on a page"


def check_rooms(root):
    """The page on the architecture has a row for each room."""
    page = root / "docs" / "architecture.md"
    rows = set(re.findall(r"^\| (\w+) \|", page.read_text(), re.MULTILINE)) if page.is_file() else set()
    for path in sorted((root / "src").glob("*/CMakeLists.txt")):
        if path.parent.name not in rows:
            yield f"docs/architecture.md: has no row for the room {path.parent.name}"


def written_offences(root):
    all_sources = sources(root)
    for page in pages(root):
        checks = [check_links(root, page), check_paths(root, page), check_names(root, page, all_sources), check_quotes(root, page, all_sources)]
        for check in checks:
            yield from (f"{page.relative_to(root)}: {offence}" for offence in check)
    yield from check_rooms(root)
    yield from check_lessons(root)


# ---- what is run ----


def program_arguments(command):
    """The arguments of the program that the command runs, or None when it is no command of the program."""
    if command in SHORTENED:
        return SHORTENED[command]
    words = shlex.split(command)
    return words[2:] if words[:2] == ["./dev", "tessera"] else None


def run(words, root):
    # A model of bytes may write bytes that are no text.
    done = subprocess.run(words, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=DEADLINE_SECONDS)
    return done.returncode, done.stdout + done.stderr


def check_command(root, command, program, build):
    arguments = program_arguments(command)
    if arguments is not None:
        status, output = run([program, *arguments], root)
        if status != 0:
            yield f"'{command}' ends with {status}:\n{output}"
    elif command in RUN_ELSEWHERE:
        if not (root / RUN_ELSEWHERE[command]).is_file():
            yield f"'{command}' is run by {RUN_ELSEWHERE[command]}, which does not exist"
    elif command.startswith("./dev test "):
        # A part of the tests, all of which run anyway: here only that it names some.
        status, output = run(["ctest", "--test-dir", build, "-N", *shlex.split(command)[2:]], root)
        if status != 0 or "Total Tests: 0" in output:
            yield f"'{command}' names no test"
    else:
        yield f"'{command}' is run by no test: see tests/docs_test.py"


def run_offences(root, program, build, report=lambda command: None):
    done = set()
    for page in pages(root):
        for command in commands(page):
            if command not in done:
                done.add(command)
                report(command)
                yield from (f"{page.relative_to(root)}: {offence}" for offence in check_command(root, command, program, build))


# ---- the self-test ----

CLEAN = {
    "README.md": "# Name\n\nSee [more](docs/more.md), `src/ops/add.cpp`, `ops/add.cpp`, `add_two` and `--flag`.\n\n```sh\n./dev test\n./dev tessera hello\n```\n",
    "docs/more.md": "```cpp\nint add_two(int x);\n```\n",
    "docs/architecture.md": "| ops | adds |\n",
    "src/ops/CMakeLists.txt": "tessera_room(ops)\n",
    "src/ops/add.cpp": "int add_two(int x);\n",
    "examples/01/main.cpp": "\n" * MOST_LINES_OF_A_LESSON,
    ".ci/run": "",
}

PLANTED = [
    ({"docs/more.md": "[gone](gone.md)\n"}, "docs/more.md: links to gone.md"),
    ({"docs/more.md": "`src/ops/gone.cpp`\n"}, "docs/more.md: names src/ops/gone.cpp"),
    ({"docs/more.md": "`ops/gone.h`\n"}, "docs/more.md: names ops/gone.h"),
    ({"docs/more.md": "`add_three`\n"}, "docs/more.md: names add_three"),
    ({"docs/more.md": "```cpp\nint add_two(int y);\n```\n"}, "quotes 'int add_two(int y);'"),
    ({"docs/more.md": "```sh\nmake install\n```\n"}, "docs/more.md: 'make install' is run by no test"),
    ({"docs/more.md": "```sh\n./dev tessera fail\n```\n"}, "'./dev tessera fail' ends with 3:\nsorry"),
    ({"src/attic/CMakeLists.txt": ""}, "docs/architecture.md: has no row for the room attic"),
    ({"examples/01/main.cpp": "\n" * (MOST_LINES_OF_A_LESSON + 1)}, "a lesson fits on a page"),
]

# Stands for the program: ends with 3 when it is told to.
FAKE_PROGRAM = '#!/bin/sh\n[ "$1" != fail ] || { echo sorry; exit 3; }\n'


def offences_of(files):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {**CLEAN, **files, "program": FAKE_PROGRAM}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        (root / "program").chmod(0o755)
        return [*written_offences(root), *run_offences(root, root / "program", root)]


def self_test():
    failures = [f"the clean project has: {found}"] if (found := offences_of({})) else []
    for files, expected in PLANTED:
        found = offences_of(files)
        if not any(expected in offence for offence in found):
            failures.append(f"{list(files)}: expected '{expected}', found {found}")
    print("\n".join(failures) or f"{len(PLANTED)} planted offences found")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=Path(__file__).parent.parent)
    parser.add_argument("--program", help="the program tessera; without it nothing is run")
    parser.add_argument("--build", help="the build folder, for ctest")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    root = Path(options.root).resolve()
    found = list(written_offences(root))
    if options.program:
        shutil.rmtree(root / "build/docs_run", ignore_errors=True)  # where pages let a run write: a run does not begin over another
        found += run_offences(root, options.program, options.build, lambda command: print("running", command, flush=True))
    print("\n".join(found) or "the documentation says what is")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
