#!/usr/bin/env python3
"""Every planted fault is found by a test that exists and that runs before a release.

    planted_faults_test.py [ROOT]       checks tests/planted_faults.json of the project in ROOT
    planted_faults_test.py --self-test  checks that the check finds wrong tables

A row of the table has the fault, the file that plants it, the test case that finds it and its tier. A case of a C++ test is
`Suite.Case`, with a prefix and a parameter where it has them (`Fuzz/BrokenRules.AreFound/TanhIsLinear`). A case of a script
is `file.py:text`, where the script has the text.
"""

import json
import re
import sys
import tempfile
from pathlib import Path

TIERS = ("static", "unit", "conformance", "system")
KEYS = {"fault", "planted", "found_by", "tier"}
TEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)")
GTEST_CASE = re.compile(r"(?:\w+/)?(\w+\.\w+)(?:/(\w+))?")


def sources(root):
    """The tests and scripts of the project by file name: the texts of the files with this name."""
    texts = {}
    for folder in ("src", "tests"):
        for path in (root / folder).rglob("*"):
            if path.suffix in (".cpp", ".h", ".py", ".pml"):
                texts.setdefault(path.name, []).append(path.read_text())
    return texts


def cases_of(texts):
    """The texts of the files that have a test case, by its name."""
    cases = {}
    for name, files in texts.items():
        for text in files if name.endswith((".cpp", ".h")) else []:
            for suite, case in TEST.findall(text):
                cases.setdefault(f"{suite}.{case}", []).append(text)
    return cases


def why_not_found(found_by, texts, cases):
    """The reason why no test has this name; None when there is one."""
    if ".py:" in found_by:
        script, text = found_by.split(":", 1)
        if not any(text in source for source in texts.get(script, [])):
            return f"no {script} has '{text}'"
        return None
    named = GTEST_CASE.fullmatch(found_by)
    if not named or named[1] not in cases:
        return f"no test case is called {found_by}"
    if named[2] and not any(f'"{named[2]}"' in text for text in cases[named[1]]):
        return f"no parameter of {named[1]} is called {named[2]}"
    return None


def offences(root):
    rows = json.loads((root / "tests/planted_faults.json").read_text())
    texts = sources(root)
    cases = cases_of(texts)
    found = []
    known = set()
    for number, row in enumerate(rows):
        where = f"row {number} ({row.get('fault', 'without a fault')})"
        if set(row) != KEYS:
            found.append(f"{where}: has the keys {sorted(row)}, not {sorted(KEYS)}")
            continue
        if row["tier"] not in TIERS:
            found.append(f"{where}: tier {row['tier']} does not run before every release, use one of {', '.join(TIERS)}")
        if row["planted"] not in texts:
            found.append(f"{where}: no file is called {row['planted']}")
        if reason := why_not_found(row["found_by"], texts, cases):
            found.append(f"{where}: {reason}")
        if (row["fault"], row["found_by"]) in known:
            found.append(f"{where}: occurs twice")
        known.add((row["fault"], row["found_by"]))
    return found


ROW = {"fault": "a lost sum", "planted": "a_test.cpp", "found_by": "A.FindsIt", "tier": "unit"}
SOURCES = {
    "src/a_test.cpp": 'TEST(A, FindsIt) {}\nTEST_P(B, Finds) {}\nauto names = {"Lost"};\n',
    "tests/c_test.py": 'PLANTED = ["a cycle"]\n',
}
LEGAL = [{}, {"found_by": "All/B.Finds/Lost"}, {"found_by": "c_test.py:a cycle", "tier": "static"}]
WRONG = [
    ({"tier": "soak"}, "tier soak does not run"),
    ({"found_by": "A.FindsThat"}, "no test case is called A.FindsThat"),
    ({"found_by": "All/B.Finds/Gone"}, "no parameter of B.Finds is called Gone"),
    ({"found_by": "c_test.py:a line"}, "no c_test.py has 'a line'"),
    ({"planted": "gone_test.cpp"}, "no file is called gone_test.cpp"),
    ({"more": 1}, "has the keys"),
]


def offences_of(rows):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {**SOURCES, "tests/planted_faults.json": json.dumps(rows)}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return offences(root)


def self_test():
    failures = [f"{change} is legal, but: {found}" for change in LEGAL if (found := offences_of([{**ROW, **change}]))]
    for rows, expected in [*(([{**ROW, **change}], text) for change, text in WRONG), ([ROW, ROW], "occurs twice")]:
        found = offences_of(rows)
        if not any(expected in offence for offence in found):
            failures.append(f"{rows}: expected '{expected}', found {found}")
    print("\n".join(failures) or f"{len(WRONG) + 1} wrong tables found, {len(LEGAL)} legal ones passed")
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    found = offences(root)
    rows = len(json.loads((root / "tests/planted_faults.json").read_text()))
    print("\n".join(found) or f"{rows} planted faults, each found by a test that exists")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
