#!/usr/bin/env python3
"""The mistakes of users, each with its whole message and its exit code.

    run_case.py PROGRAM [--case NAME] [--xml FILE]

cases/NAME.case is a case: `command:` the arguments, run in the folder of this script; `exit:` the code; a line `---`; then the message,
whole. With --json after the arguments the same three parts must stand on standard output. Prints the cases that fail.
"""
import json
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from support import cases  # noqa: E402

LIMIT = 60  # seconds of a command
WORKERS = 2


def read_case(path):
    head, message = path.read_text().split("\n---\n", 1)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    return shlex.split(fields["command"]), int(fields["exit"]), message


def parts_of(message):
    """The three parts of a message: 'what', then 'why' and 'fix', each of which may go over several lines."""
    what, rest = message.rstrip("\n").split("\n  why: ", 1)
    why, fix = rest.split("\n  fix: ", 1)
    return {"what": what, "why": why, "fix": fix}


def run(program, arguments):
    return subprocess.run([program, *arguments], cwd=HERE, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)


def differences(program, path):
    arguments, code, message = read_case(path)
    plain = run(program, arguments)
    if plain.returncode != code:
        yield f"exit code {plain.returncode}, expected {code}"
    if plain.stderr != message:
        yield f"standard error is\n{plain.stderr}\nexpected\n{message}"
    if plain.stdout:
        yield f"standard output is not empty:\n{plain.stdout}"
    scripted = run(program, [*arguments, "--json"])
    try:
        document = json.loads(scripted.stdout)
    except ValueError:
        yield f"with --json, standard output is no JSON:\n{scripted.stdout}"
        return
    if document != {"error": parts_of(message), "exit_code": code}:
        yield f"with --json, standard output is\n{scripted.stdout}"
    if scripted.returncode != code:
        yield f"with --json, exit code {scripted.returncode}, expected {code}"


def case_of(program, path):
    def check():
        if found := list(differences(program, path)):
            raise AssertionError("\n".join(found))
    return cases.Named(path.stem, check)


def main():
    parser = cases.parser(__doc__, "program")
    parser.add_argument("--case", metavar="NAME", action="append", dest="only", help="the same as --only")
    parser.set_defaults(workers=WORKERS)
    options = parser.parse_args()
    program = pathlib.Path(options.program).resolve()
    return cases.run([case_of(program, path) for path in sorted((HERE / "cases").glob("*.case"))], options, quiet=True)


if __name__ == "__main__":
    sys.exit(main())
