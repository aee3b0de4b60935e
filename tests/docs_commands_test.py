#!/usr/bin/env python3
"""Every command of README.md and docs runs.

    docs_commands_test.py PROGRAM BUILD [--root ROOT] [--only COMMAND] [--xml FILE]
    docs_commands_test.py --self-test                plants commands that fail into a small project

Commands are the lines of ```sh blocks. `./dev tessera ...` is run with PROGRAM as it is written, in the project's folder;
the others must be in RUN_ELSEWHERE or SHORTENED. A command of several pages runs once. Commands that name the same file or
folder below build/ run one after another, in the order of the pages; others run at once. BUILD is the build folder, for
ctest. Python's standard library only.
"""
import contextlib
import io
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from docs_test import commands, pages
from support import cases

# Commands that would run this very test again or need what it cannot give, and who runs them instead.
RUN_ELSEWHERE = {
    "./dev test": ".ci/run",
    # mpirun starts nothing for root, and no more processes than cores, unless told otherwise.
    "mpirun -n 4 build/release/src/tools/cli/tessera train configs/gpt.toml "
    "--plan configs/plans/gpt.dp2-tp2.json --out build/mpi_run": "tests/mpi_test.py",
    "mpirun -n 4 ./dev tessera measure -o build/job.toml": "tests/mpi_test.py",
    "build/release/src/tools/cli/tessera launch -n 4 --restarts 1 -- train configs/gpt.toml "
    "--plan configs/plans/gpt.dp2-tp2.json --out build/launched": "tests/faults_test.py",
}

# Commands that are run with fewer steps than a reader would see.
SHORTENED = {"./dev demo": ["demo", "--steps", "3"]}

LIMIT = 250  # seconds of a command
WORKERS = 2
# The run folders of the pages: a run is not written over another.
RUN_FOLDERS = ["docs_run", "tasks_text", "mlp.dp2"]
OUTPUT = re.compile(r"build/[\w.-]+")


def program_arguments(command):
    """The arguments of the program in a command, or None for a command of another program."""
    if command in SHORTENED:
        return SHORTENED[command]
    words = shlex.split(command)
    return words[2:] if words[:2] == ["./dev", "tessera"] else None


def run(words, root):
    # A model of bytes may write bytes that are not text.
    done = subprocess.run(words, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=LIMIT)
    return done.returncode, done.stdout + done.stderr


def offence_of(root, command, program, build):
    """What is wrong with a command, or None."""
    arguments = program_arguments(command)
    if arguments is not None:
        status, output = run([program, *arguments], root)
        return f"ends with {status}:\n{output}" if status != 0 else None
    if command in RUN_ELSEWHERE:
        script = RUN_ELSEWHERE[command]
        return None if (root / script).is_file() else f"is run by {script}, which does not exist"
    if command.startswith("./dev test "):
        # A part of the tests, all of which run anyway: here only that it names some.
        status, output = run(["ctest", "--test-dir", build, "-N", *shlex.split(command)[2:]], root)
        return "names no test" if status != 0 or "Total Tests: 0" in output else None
    return "is run by no test: see tests/docs_commands_test.py"


def places(root):
    """Each command, with the first page that has it."""
    found = {}
    for page in pages(root):
        for command in commands(page):
            found.setdefault(command, page.relative_to(root))
    return found


def chains(listed):
    """The commands in lists: those of a list share files below build/. Long lists first."""
    lists = []
    for command in listed:
        files = set(OUTPUT.findall(command)) if program_arguments(command) else set()
        shared = [each for each in lists if each[0] & files]
        lists = [each for each in lists if each not in shared]
        lists.append((files.union(*(each[0] for each in shared)), [*(one for each in shared for one in each[1]), command]))
    return [each for _, each in sorted(lists, key=lambda each: -len(each[1]))]


def case_of(root, page, command, program, build):
    def check():
        if offence := offence_of(root, command, program, build):
            raise AssertionError(f"{page}: '{command}' {offence}")
    return cases.Named(command, check)


def check_commands(root, program, build, options):
    listed = places(root)
    made = {command: case_of(root, page, command, program, build) for command, page in listed.items()}
    return cases.run(list(made.values()), options, units=[[made[command] for command in chain] for chain in chains(listed)])


# ---- the self-test ----

CLEAN = {
    "README.md": "```sh\n./dev test\n./dev tessera hello\n```\n",
    ".ci/run": "",
    # Stands for the program: ends with 3 when it is told to; `read` needs what `write` wrote.
    "program": '#!/bin/sh\ncase "$1" in\nfail) echo sorry; exit 3;;\nwrite) sleep 0.1; touch "$2";;\nread) cat "$2";;\nesac\n',
}
PLANTED = [
    ("make all", "docs/more.md: 'make all' is run by no test"),
    ("./dev tessera fail", "fail' ends with 3:\nsorry"),
    ("./dev tessera \\\n  fail", "tessera fail' ends with 3"),
    ("./dev tessera read build/none", "read build/none' ends with 1"),
]
HARMLESS = ["./dev tessera write build/a/b\n./dev tessera read build/a/b\n./dev tessera hello"]


def output_of(text):
    """The exit code and the output for a page with these commands."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "build/a").mkdir(parents=True)
        for name, content in {**CLEAN, "docs/more.md": f"```sh\n{text}\n```\n"}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        (root / "program").chmod(0o755)
        options = cases.parser("").parse_args(["--workers", "2"])
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = check_commands(root, root / "program", root, options)
        return code, said.getvalue()


def self_test():
    failures = [f"{text!r} is legal, but: {said}" for text in HARMLESS for code, said in [output_of(text)] if code]
    for text, expected in PLANTED:
        code, said = output_of(text)
        if code != 1 or expected not in said:
            failures.append(f"{text!r}: expected '{expected}', code {code}, found {said}")
    print("\n".join(failures) or f"{len(PLANTED)} planted offences found")
    return 1 if failures else 0


def main():
    parser = cases.parser(__doc__, "program", "build")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent, help="the project")
    parser.set_defaults(workers=WORKERS)
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    options = parser.parse_args()
    root, program = options.root.resolve(), pathlib.Path(options.program).resolve()
    for folder in RUN_FOLDERS:
        shutil.rmtree(root / "build" / folder, ignore_errors=True)
    return check_commands(root, program, options.build, options)


if __name__ == "__main__":
    sys.exit(main())
