#!/usr/bin/env python3
"""Runs one mistake of a user and compares the whole message and the exit code.

    run_case.py PROGRAM CASE

A case is a file: `command:` the arguments, run in the folder of this script; `exit:` the code; a line `---`; then the message, whole. With --json
after the arguments the same three parts must stand on standard output.
"""
import json
import pathlib
import shlex
import subprocess
import sys


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
    here = pathlib.Path(__file__).resolve().parent
    return subprocess.run([program, *arguments], cwd=here, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


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


def main():
    program, case = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    found = list(differences(program, case))
    for difference in found:
        print(f"{case.stem}: {difference}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
