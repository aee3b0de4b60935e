"""What the test scripts share: cases with names, run one by one or on several threads, and a report of them.

Every case is a unittest.TestCase: of a module (`tests_of`), or made of a function (`Named`). A script ends with

    options = cases.parser(__doc__, "program").parse_args()
    sys.exit(cases.run(cases.tests_of(sys.modules[__name__]), options))

and so has the options --only NAME, --list, --xml FILE and --workers N. The name of a case is printed when it starts,
so that one that hangs is named.
"""
import argparse
import concurrent.futures
import pathlib
import re
import sys
import threading
import time
import typing
import unittest
import xml.etree.ElementTree

SLOWEST = 10  # cases that a report names
LONG = 60     # seconds after which a case that still runs is named again


class Named(unittest.FunctionTestCase):
    """A case of a function: it fails with the text of what the function raises."""

    def __init__(self, name, function):
        super().__init__(function)
        self.name = name

    def id(self):
        return self.name


class Outcome(typing.NamedTuple):
    name: str
    seconds: float
    state: str  # "well", "failed" or "skipped"
    text: str


class Result(unittest.TestResult):
    """Hands the outcome of each case to a function."""

    def __init__(self, started, ended):
        super().__init__()
        self.started, self.ended = started, ended
        self.state, self.texts, self.begin = "well", [], None

    def startTest(self, test):
        super().startTest(test)
        self.state, self.texts, self.begin = "well", [], time.monotonic()
        self.started(name_of(test))

    def stopTest(self, test):
        super().stopTest(test)
        self.ended(Outcome(name_of(test), time.monotonic() - self.begin, self.state, "\n".join(self.texts)))
        self.begin = None

    def note(self, test, state, text):
        if self.begin is None:  # what a class has before its first case or after its last one
            self.ended(Outcome(name_of(test), 0, state, text))
        else:
            self.state = state
            self.texts.append(text)

    def addError(self, test, error):
        self.note(test, "failed", self.text_of(test, error))

    addFailure = addError

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.note(test, "failed", f"{subtest._subDescription()}:\n{self.text_of(test, error)}")

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason)

    def text_of(self, test, error):
        if isinstance(test, Named):
            return f"{error[1]}" if isinstance(error[1], AssertionError) else f"{error[0].__name__}: {error[1]}"
        return self._exc_info_to_string(error, test)


def of_checks(checks):
    """A case for each name and list of offences, which may be a generator: it fails with the offences."""
    def of(name, offences):
        def check():
            found = list(offences)
            assert not found, "\n".join(found)
        return Named(name, check)
    return [of(*item) for item in checks.items()]


def name_of(test):
    """Class.test of a method."""
    return test.id().removeprefix("__main__.")


def tests_of(module):
    """Every case of the classes of a module."""
    def flat(suite):
        for test in suite:
            yield from flat(test) if isinstance(test, unittest.TestSuite) else [test]
    return list(flat(unittest.defaultTestLoader.loadTestsFromModule(module)))


def parser(description, *positional):
    """The parser of a script: `positional` are the names of its arguments."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in positional:
        made.add_argument(name)
    made.add_argument("--only", metavar="NAME", action="append", help="run the case NAME, or all that contain NAME; again for more")
    made.add_argument("--list", action="store_true", help="print the names of the cases")
    made.add_argument("--xml", metavar="FILE", type=pathlib.Path, help="write a JUnit report")
    made.add_argument("--workers", metavar="N", type=int, default=1, help="cases that run at once")
    return made


def chosen(tests, only):
    """The cases of the names; of a name that no case has as a whole, those that contain it."""
    whole = {name_of(test) for test in tests}
    fits = lambda test, name: name_of(test) == name if name in whole else name in name_of(test)
    return [test for test in tests if not only or any(fits(test, name) for name in only)]


def units_of(tests):
    """Lists of cases that run one by one: those of a class that shares something in setUpClass, and any other case alone."""
    units = {}
    for test in tests:
        shares = type(test).setUpClass.__func__ is not unittest.TestCase.setUpClass.__func__
        units.setdefault(type(test) if shares else test.id(), []).append(test)
    return list(units.values())


class Report:
    """Prints what happens; called by all workers."""

    def __init__(self, quiet):
        self.quiet, self.lock = quiet, threading.Lock()
        self.running, self.outcomes = {}, []

    def say(self, *words):
        print(*words, flush=True)

    def started(self, name):
        with self.lock:
            self.running[name] = time.monotonic()
            if not self.quiet:
                self.say("start  ", name)

    def ended(self, outcome):
        with self.lock:
            self.running.pop(outcome.name, None)
            self.outcomes.append(outcome)
            if outcome.state == "failed" or not self.quiet:
                text = f": {outcome.text}" if outcome.state == "skipped" else f"\n{outcome.text}" if outcome.text else ""
                self.say(f"{outcome.state:8}{outcome.name}, {outcome.seconds:.1f} s{text}")

    def name_long_ones(self):
        with self.lock:
            for name, begin in self.running.items():
                if time.monotonic() - begin > LONG:
                    self.say(f"running {name}, since {time.monotonic() - begin:.0f} s")

    def summary(self, seconds):
        counts = {state: sum(outcome.state == state for outcome in self.outcomes) for state in ("well", "failed", "skipped")}
        if len(self.outcomes) > 1:
            for outcome in sorted(self.outcomes, key=lambda each: -each.seconds)[:SLOWEST]:
                self.say(f"{outcome.seconds:7.1f} s {outcome.name}")
        self.say(", ".join(f"{count} {state}" for state, count in counts.items()) + f", in {seconds:.1f} s")


def write_xml(path, suite, outcomes):
    """A JUnit report with a testcase for each outcome."""
    count = lambda state: str(sum(outcome.state == state for outcome in outcomes))
    root = xml.etree.ElementTree.Element("testsuite", name=suite, tests=str(len(outcomes)), failures=count("failed"), skipped=count("skipped"),
                                         time=f"{sum(outcome.seconds for outcome in outcomes):.3f}")
    for outcome in sorted(outcomes):
        case = xml.etree.ElementTree.SubElement(root, "testcase", classname=suite, name=clean(outcome.name), time=f"{outcome.seconds:.3f}")
        if outcome.state != "well":
            xml.etree.ElementTree.SubElement(case, "failure" if outcome.state == "failed" else "skipped").text = clean(outcome.text)
    path.parent.mkdir(parents=True, exist_ok=True)
    xml.etree.ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def clean(text):
    """Without the characters that XML has no place for."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]", "?", text)


def run(tests, options, quiet=False, units=None):
    """The exit code: 1 when a case failed, 2 when none has the name. `units` are lists of tests that run one by one."""
    tests = chosen(tests, options.only)
    if options.list:
        print("\n".join(map(name_of, tests)))
        return 0
    if not tests:
        print(f"no case has a name with {' or '.join(options.only or ['anything'])}: --list prints the names", file=sys.stderr)
        return 2
    begin, report = time.monotonic(), Report(quiet)
    units = [part for unit in units if (part := [test for test in unit if test in tests])] if units else units_of(tests)
    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        left = {pool.submit(unittest.TestSuite(unit).run, Result(report.started, report.ended)) for unit in units}
        while left:
            done, left = concurrent.futures.wait(left, LONG, concurrent.futures.FIRST_COMPLETED)
            report.name_long_ones()
            for each in done:
                each.result()
    report.summary(time.monotonic() - begin)
    if options.xml:
        write_xml(options.xml, pathlib.Path(sys.argv[0]).stem, report.outcomes)
    return 1 if any(outcome.state == "failed" for outcome in report.outcomes) else 0
