#!/usr/bin/env python3
"""What the tests took, beside what they may take.

    budget.py [BUILD]        reads BUILD/tests.xml, the JUnit report of ctest; build/release without BUILD
    budget.py --self-test    reads a small report

tests/budget.json has the seconds of each tier and of each program, summed over its tests. The tier of a test is its label, for
which ctest is asked. Prints the sums, the budgets that are exceeded by more than a fifth, and the slowest tests. The exit code is
always 0: times of a busy machine are no failure.
"""
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
MARGIN = 1.2
SLOWEST = 10


def seconds_of(report):
    """The seconds by test of a JUnit report."""
    return {case.get("name"): float(case.get("time", 0)) for case in xml.etree.ElementTree.parse(report).iter("testcase")}


def tiers_of(listed, known):
    """The tier by test: the label that is one, of what `ctest --show-only=json-v1` prints."""
    labels = {}
    for test in listed["tests"]:
        properties = {each["name"]: each["value"] for each in test.get("properties", [])}
        labels[test["name"]] = next((label for label in properties.get("LABELS", []) if label in known), "none")
    return labels


def program_of(name, programs):
    """The program of a test: its whole name, NAME of TIER.NAME.SHARD, or what is before the first dot."""
    words = name.split(".")
    return name if name in programs else words[1] if len(words) == 3 else words[0]


def sums_by(group_of, times):
    sums = {}
    for name, seconds in times.items():
        sums[group_of(name)] = sums.get(group_of(name), 0) + seconds
    return sums


def lines_of(times, tiers, budget):
    """What is printed."""
    by_tier = sums_by(lambda name: tiers.get(name, "none"), times)
    by_program = sums_by(lambda name: program_of(name, budget["programs"]), times)
    for tier, seconds in by_tier.items():
        allowed = budget["tiers"].get(tier)
        yield f"{tier:12} {seconds:8.1f} s" + (f" of {allowed} s" if allowed is not None else "")
    for kind, sums in (("tiers", by_tier), ("programs", by_program)):
        for name, seconds in sums.items():
            allowed = budget[kind].get(name)
            if allowed is not None and seconds > MARGIN * allowed:
                yield f"over budget: {name} took {seconds:.1f} s of {allowed} s"
    yield f"the slowest of {len(times)} tests:"
    for name, seconds in sorted(times.items(), key=lambda item: -item[1])[:SLOWEST]:
        yield f"{seconds:8.1f} s {name}"


def self_test():
    listed = {"tests": [{"name": name, "properties": [{"name": "LABELS", "value": ["x", tier]}]}
                        for name, tier in (("docs", "system"), ("unit.ops.1", "unit"), ("unit.ops.2", "unit"))]}
    budget = {"tiers": {"system": 10, "unit": 2}, "programs": {"docs": 10, "ops": 1}}
    tiers = tiers_of(listed, budget["tiers"])
    said = "\n".join(lines_of({"docs": 11.9, "unit.ops.1": 1, "unit.ops.2": 0.3}, tiers, budget))
    assert "system           11.9 s of 10 s" in said and "over budget: ops took 1.3 s of 1 s" in said, said
    assert "over budget: docs" not in said and "over budget: unit" not in said, said
    print("the sums are right")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent / "build" / "release")
    budget = json.loads((HERE / "budget.json").read_text())
    try:
        listed = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], capture_output=True, text=True, check=True)
        times = seconds_of(build / "tests.xml")
        tiers = tiers_of(json.loads(listed.stdout), budget["tiers"])
    except (OSError, subprocess.CalledProcessError, ValueError, xml.etree.ElementTree.ParseError) as error:
        print(f"budget: nothing to compare: {error}")
        return None
    return print("\n".join(lines_of(times, tiers, budget)))


if __name__ == "__main__":
    main()
