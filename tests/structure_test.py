#!/usr/bin/env python3
"""Sizes that keep the code readable, measured and printed; the gross ones are bounded.

    structure_test.py [ROOT] [--only NAME] [--list] [--xml FILE]  measures the project in ROOT (by default that of this file)
    structure_test.py --self-test                                 plants one offence of each kind into a small project and expects to find it

Bounds: columns of a line and explicit arithmetic casts in 1,000 lines; calls of std::filesystem that throw, and texts on standard streams that are not escaped. Lines of a function, sources of a folder and methods of
a class have two numbers: above the first one the place is printed as advice, above the second one the test fails. Python's
standard library only: the sources are read as text, without a compiler.
"""

import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from support import cases

MAX_COLUMNS = 100
MAX_CASTS_PER_1000_LINES = 15


@dataclass(frozen=True)
class Limit:
    """Above `advised` a place is printed, above `gross` it is an offence."""

    advised: int
    gross: int


FUNCTION_LINES = Limit(60, 150)
SOURCES_OF_A_FOLDER = Limit(25, 60)
METHODS = Limit(25, 60)

PARTS = ["src", "tests", "examples", "bench"]
ENDINGS = {".h", ".cpp"}

# Classes that may have more methods than is advised, each with the reason.
LARGE_CLASSES = {
    "Engine": "what users call: every method forwards to one part, such as ProgramSet, TrainingSteps or Evaluator",
    "Builder": "a method for each operator, so that a model reads as a program",
    "IndexedVector": "the interface of std::vector, with a const form of each accessor",
    "SharedVector": "the part of the interface of std::vector that is used, with a const form of each accessor",
    "Runtime": "what a process does with its ranks and with the other processes; any() is one line for readers of union_of()",
    "Document": "accessors for each kind of JSON and TOML value, with a const form of some",
    "Actor": "the counters of one state machine; most methods are one line, and the hot ones are inline",
    "TaskActors": "one description of who sends what to whom, which the runtime, the simulator and the checks read",
    "PropagationState": "the candidates of every value and op, which the phases of propagation read and change",
}

ARITHMETIC = (
    r"(?:std::)?(?:u?int(?:8|16|32|64)?_t|s?size_t|ptrdiff_t|u?intptr_t|streamsize|streamoff)"
    r"|(?:unsigned|signed)(?: (?:char|short|int|long(?: long)?))?"
    r"|char|short|int|long(?: long)?(?: double)?|float|double|bool|(?:unsigned )?__int128"
)
NAMED_CAST = re.compile(r"\bstatic_cast<\s*(?![^<>]*[*&])(?!void\b)")
FUNCTIONAL_CAST = re.compile(rf"\b(?:{ARITHMETIC})\s*([({{])(?!\s*[)}}*&])")
C_STYLE_CAST = re.compile(rf"\(\s*(?:{ARITHMETIC})\s*\)\s*[\w(~!+-]")
MARK = re.compile(r"[()\[\]{};:]")
COMMENT_OR_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\((.*?)\)\1"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)


def blank_out(match):
    """A comment or literal, replaced so that lines and columns stay where they are."""
    text = match.group(0)
    blank = re.sub(r"[^\n]", " ", text)
    return blank if text.startswith("/") else '"' + blank[1:-1] + '"'


def code_of(text):
    """The text without comments, literals and preprocessor lines; of equal length."""
    text = COMMENT_OR_LITERAL.sub(blank_out, text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: re.sub(r"[^\n]", " ", match.group(0)), text, flags=re.MULTILINE)


def is_test(path):
    return path.stem.endswith("_test") or "testing" in path.parts or path.parts[0] != "src"


def files_of(root, parts=PARTS):
    for part in parts:
        for path in sorted((root / part).rglob("*")):
            if path.is_file() and path.suffix in ENDINGS:
                yield path


# ---- casts ----


def count_casts(code):
    count = len(NAMED_CAST.findall(code))
    for match in FUNCTIONAL_CAST.finditer(code):
        before = code[: match.start()].rstrip()
        is_declaration = re.search(r"(?:[\w>&*\])]|<|::)$", before) and not re.search(r"\b(?:return|case|else|throw|co_return|and|or|not)$", before)
        count += not is_declaration
    for match in C_STYLE_CAST.finditer(code):
        before = code[: match.start()].rstrip()
        is_call = re.search(r"[\w>\])]$", before) and not re.search(r"\b(?:return|case|else|throw)$", before)
        count += not is_call
    return count


# ---- paths ----

FILE_SYSTEM = (
    r"exists|status|symlink_status|is_(?:block_file|character_file|directory|empty|fifo|other|regular_file|socket|symlink)|file_size|hard_link_count"
    r"|last_write_time|permissions|space|equivalent|absolute|canonical|weakly_canonical|relative|proximate|current_path|temp_directory_path|read_symlink"
    r"|copy|copy_file|copy_symlink|create_director(?:y|ies)|create_(?:directory_)?symlink|create_hard_link|remove|remove_all|rename|resize_file"
)
FILE_SYSTEM_CALL = re.compile(rf"\b(?:std::filesystem|fs)::(?:({FILE_SYSTEM})|((?:recursive_)?directory_iterator)(?:\s+\w+)?)\s*[({{]")
FOLDER_LOOP = re.compile(r"\bfor\s*\([^;()]*:\s*(?:std::filesystem|fs)::((?:recursive_)?directory_iterator)\b")
NO_EXCEPTION = re.compile(r"\b(?:error|unknown|ignored|status)$")  # the names of error codes, and of a status that is known


def arguments_of(code, start):
    """The arguments of the call whose bracket opens before `start`."""
    depth, arguments, begin = 1, [], start
    for at in range(start, len(code)):
        if code[at] in "([{":
            depth += 1
        elif code[at] in ")]}":
            depth -= 1
        if depth == 0 or (depth == 1 and code[at] == ","):
            arguments.append(code[begin:at].strip())
            begin = at + 1
        if depth == 0:
            return arguments
    return arguments


def throwing_paths(root):
    """Calls of std::filesystem that throw where a path cannot be looked up, which users would read as an error of a library."""
    for path in files_of(root, ["src"]):
        if is_test(path.relative_to(root)):
            continue
        code = code_of(path.read_text())
        for match in FILE_SYSTEM_CALL.finditer(code):
            arguments = arguments_of(code, match.end())
            is_end = match.group(2) and arguments == [""]
            if not is_end and not NO_EXCEPTION.search(arguments[-1]):
                yield place_of(root, path, code, match, f"{match.group(1) or match.group(2)} without an error code throws; base/files/file.h has path_exists()")
        for match in FOLDER_LOOP.finditer(code):
            yield place_of(root, path, code, match, "a loop over a folder throws; use increment() with an error code")


# Where texts reach the standard streams; elsewhere print() and tell() escape what files have put into them.
PRINTERS = {"src/tools/cli/main.cpp", "src/tools/cli/internal/print/print.cpp", "src/tools/cli/internal/print/progress.cpp"}


def raw_prints(root):
    for path in files_of(root, ["src"]):
        if is_test(path.relative_to(root)) or path.relative_to(root).as_posix() in PRINTERS:
            continue
        code = code_of(path.read_text())
        for match in re.finditer(r"\bstd::c(?:out|err)\s*<<", code):
            yield place_of(root, path, code, match, "a text reaches a terminal unescaped; use print() or tell() of tools/cli/internal/print/print.h")


def place_of(root, path, code, match, text):
    line = code.count("\n", 0, match.start()) + 1
    return f"{path.relative_to(root)}:{line}: {text}"


# ---- functions and classes ----


class Scopes:
    """The functions and classes of a source, found by its braces."""

    def __init__(self, code):
        self.functions = []  # (name, lines, line)
        self.classes = []  # (name, methods, line)
        self.walk(code)

    def walk(self, code):
        stack = []  # [kind, name, start, end of the last statement]
        start = 0  # where the statement begins that is read now
        parens = 0
        for match in MARK.finditer(code):
            at, char = match.start(), match.group()
            if char in "([":
                parens += 1
            elif char in ")]":
                parens = max(0, parens - 1)
            elif char == "{" and parens:
                stack.append(["inner", "", at, parens])
                parens = 0
            elif char == "{":
                kind, name = self.kind_of(code[start:at], stack)
                if kind == "function" and self.is_member_initializer(code[start:at]):
                    kind = "other"
                stack.append([kind, name, self.first_line(code, start), 0])
                if kind == "function" and stack[:-1] and stack[-2][0] == "class":
                    stack[-2][3] += 1
                if kind in ("namespace", "class"):
                    start = at + 1
                elif kind == "other" and not self.is_in_function(stack[:-1]):
                    pass
                else:
                    start = at + 1
            elif char == "}" and stack:
                kind, name, begin, count = stack.pop()
                if kind == "inner":
                    parens = count
                    continue
                if kind == "function":
                    last = code.count("\n", 0, at) + 1
                    self.functions.append((name, last - begin + 1, begin))
                if kind == "class":
                    self.classes.append((name, count, begin))
                if kind != "other" or self.is_in_function(stack):
                    start = at + 1
            elif char == ";" and not parens:
                if stack and stack[-1][0] == "class" and self.is_method(code[start:at]):
                    stack[-1][3] += 1
                start = at + 1
            elif char == ":" and stack and stack[-1][0] == "class" and re.search(r"^\s*(?:public|private|protected)$", code[start:at]):
                start = at + 1

    @staticmethod
    def first_line(code, start):
        blank = len(code[start:]) - len(code[start:].lstrip())
        return code.count("\n", 0, start + blank) + 1

    @staticmethod
    def is_in_function(stack):
        return any(scope[0] in ("function", "inner") for scope in stack)

    def kind_of(self, head, stack):
        head = re.sub(r"\b(?:public|private|protected)\s*:", "", head).strip()
        head = re.sub(r"\[\[.*?\]\]", "", head).strip()
        head = re.sub(r"^template\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>\s*(?:requires\s+[^{]*?(?=\b(?:class|struct|auto|void)\b))?", "", head).strip()
        if self.is_in_function(stack):
            return "other", ""
        if re.match(r"(?:inline\s+)?namespace\b|extern\b\s*\"", head):
            return "namespace", ""
        if match := re.match(r"(?:class|struct|union)\s+([\w:<>, ]*?)\s*(?:final)?\s*(?::(?!:).*)?$", head, re.DOTALL):
            return "class", match.group(1)
        if re.match(r"enum\b", head) or "(" not in head or re.match(r"[^(]*[^=!<>]=[^=]", head) and "operator" not in head:
            return "other", ""
        name = re.search(r"([\w:~<>]+|operator\s*\S+)\s*\(", head)
        return "function", name.group(1) if name else "?"

    @staticmethod
    def is_member_initializer(head):
        """Is this the brace of `a_{1}` in `A() : a_{1} {`, and not that of the body?"""
        return re.search(r"\)\s*(?:noexcept)?\s*(?<!:):(?!:)", head) and re.search(r"[\w>]\s*$", head)

    @staticmethod
    def is_method(statement):
        statement = re.sub(r"\[\[.*?\]\]", "", statement).strip()
        if re.match(r"(?:friend|using|typedef|static_assert)\b", statement) or statement.endswith("= delete"):
            return False
        statement = re.sub(r"<(?:[^<>()]|<[^<>]*>|\([^()]*\))*>", "", statement)
        return re.match(r"[^=]*[\w~]\s*\(|.*\boperator\b", statement) is not None


# ---- the measures ----


def long_lines(root):
    for path in files_of(root):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > MAX_COLUMNS:
                yield f"{path.relative_to(root)}:{number}: {len(line)} columns, at most {MAX_COLUMNS}"


def long_functions(scopes, most):
    for path, found in scopes.items():
        for name, lines, number in found.functions:
            if lines > most:
                yield f"{path}:{number}: function {name} has {lines} lines, at most {most}"


def large_classes(scopes, most, known=()):
    for path, found in scopes.items():
        for name, methods, number in found.classes:
            if methods > most and name not in known and not is_test(path):
                yield f"{path}:{number}: class {name} has {methods} methods, at most {most}"


def casts_by_module(root):
    """(casts, lines) of each module of src/, without tests."""
    modules = {}
    for path in files_of(root, ["src"]):
        if not is_test(path.relative_to(root)):
            text = path.read_text()
            parts = path.relative_to(root / "src").parts
            module = parts[0] if parts[0] in ("base", "kernels") else "/".join(parts[:2])
            casts, lines = modules.get(module, (0, 0))
            modules[module] = (casts + count_casts(code_of(text)), lines + text.count("\n"))
    return modules


def too_many_casts(modules):
    casts, lines = (sum(column) for column in zip(*modules.values())) if modules else (0, 0)
    if casts * 1000 > MAX_CASTS_PER_1000_LINES * max(lines, 1):
        yield f"src: {casts} explicit arithmetic casts in {lines} lines, at most {MAX_CASTS_PER_1000_LINES} in 1,000"


def crowded_folders(root, most):
    folders = {}
    for path in files_of(root, ["src"]):
        if path.suffix == ".cpp" and not path.stem.endswith("_test"):
            folders.setdefault(path.parent.relative_to(root).as_posix(), []).append(path.name)
    for folder, names in sorted(folders.items()):
        if len(names) > most:
            yield f"{folder}: {len(names)} sources, at most {most}"


def scopes_of(root):
    return {path.relative_to(root): Scopes(code_of(path.read_text())) for path in files_of(root)}


def checks_of(root, scopes, modules):
    return {"columns": long_lines(root), "functions": long_functions(scopes, FUNCTION_LINES.gross), "classes": large_classes(scopes, METHODS.gross),
            "casts": too_many_casts(modules), "paths": throwing_paths(root), "prints": raw_prints(root), "folders": crowded_folders(root, SOURCES_OF_A_FOLDER.gross)}


def advice(root, scopes):
    """What a reader would like smaller; it is no offence."""
    checks = [long_functions(scopes, FUNCTION_LINES.advised), large_classes(scopes, METHODS.advised, LARGE_CLASSES),
              crowded_folders(root, SOURCES_OF_A_FOLDER.advised)]
    return [line for check in checks for line in check]


def print_measures(scopes, modules):
    casts, lines = (sum(column) for column in zip(*modules.values()))
    functions = sorted(((length, f"{path}:{number} {name}") for path, found in scopes.items() if not is_test(path)
                        for name, length, number in found.functions), reverse=True)
    methods = sorted(((count, f"{path}:{number} {name}") for path, found in scopes.items() if not is_test(path)
                      for name, count, number in found.classes), reverse=True)
    print(f"src without tests: {lines} lines, {len(functions)} functions, {casts} casts: {1000 * casts / lines:.1f} in 1,000 lines")
    by_density = sorted(modules.items(), key=lambda item: -item[1][0] / item[1][1])
    print("casts in 1,000 lines by module:", ", ".join(f"{name} {1000 * count / size:.0f}" for name, (count, size) in by_density))
    print("longest functions:", ", ".join(f"{where} {length}" for length, where in functions[:5]))
    print("classes with the most methods:", ", ".join(f"{where} {count}" for count, where in methods[:5]))


# ---- the self-test ----

def methods(count):
    return "class Large : public Base {\n public:\n" + "".join(f"  void f{n}(int a = 3);\n" for n in range(count)) + "};\n"


def function(lines):
    return "namespace t {\n\nint f(int x) {\n" + "  ++x;\n" * (lines - 3) + "  return x;\n}\n}\n"


CLEAN = {
    "src/base/a.h": "#pragma once\n// A comment with int(3), (int)x and { a brace.\nnamespace t {\nclass Small {\n public:\n  Small() : a_{1} {}\n"
                    "  int f() const { return a_; }\n\n private:\n  std::function<int(int)> g_ = {};\n  int a_ = 0;\n};\nint h(int, double);\n}\n",
}
PLANTED = [
    ({"src/base/wide.cpp": "// " + "x" * 98 + "\n"}, "src/base/wide.cpp:1: 101 columns"),
    ({"tests/wide.cpp": "// " + "x" * 98 + "\n"}, "tests/wide.cpp:1: 101 columns"),
    ({"src/base/long.cpp": function(FUNCTION_LINES.gross + 1)}, f"src/base/long.cpp:3: function f has {FUNCTION_LINES.gross + 1} lines"),
    ({"src/base/method.h": "class A {\n public:\n  A() : a_{2} {\n" + "  ++a_;\n" * FUNCTION_LINES.gross + "  }\n  int a_;\n};\n"},
     f"function A has {FUNCTION_LINES.gross + 2} lines"),
    ({"src/base/large.h": methods(METHODS.gross + 1)}, f"class Large has {METHODS.gross + 1} methods"),
    ({"src/base/casts.cpp": "auto a = static_cast<int>(b);\n"}, "src: 1 explicit arithmetic casts"),
    ({"src/base/casts.cpp": "auto a = (double)b;\n"}, "src: 1 explicit arithmetic casts"),
    ({"src/base/casts.cpp": "auto a = f(int64_t{b}, std::size_t(c), unsigned(d));\n"}, "src: 3 explicit arithmetic casts"),
    ({"src/base/path.cpp": 'void f() {\n  std::cerr << "a";\n}\n'}, "src/base/path.cpp:2: a text reaches a terminal"),
    ({"src/base/path.cpp": "bool a = fs::exists(b / c(d));\n"}, "src/base/path.cpp:1: exists without an error code"),
    ({"src/base/path.cpp": "auto a =\n    std::filesystem::file_size(b);\n"}, "src/base/path.cpp:2: file_size without an error code"),
    ({"src/base/path.cpp": "fs::directory_iterator a(b);\n"}, "src/base/path.cpp:1: directory_iterator without an error code"),
    ({"src/base/path.cpp": "for (const auto& a : fs::directory_iterator(b, error)) c(a);\n"}, "src/base/path.cpp:1: a loop over a folder"),
    ({f"src/base/s{n}.cpp": "" for n in range(SOURCES_OF_A_FOLDER.gross + 1)}, f"src/base: {SOURCES_OF_A_FOLDER.gross + 1} sources"),
]
# What is advice and no offence.
ADVISED = [
    ({"src/base/long.cpp": function(FUNCTION_LINES.advised + 1)}, f"src/base/long.cpp:3: function f has {FUNCTION_LINES.advised + 1} lines"),
    ({"src/base/large.h": methods(METHODS.advised + 1)}, f"class Large has {METHODS.advised + 1} methods"),
    ({f"src/base/s{n}.cpp": "" for n in range(SOURCES_OF_A_FOLDER.advised + 1)}, f"src/base: {SOURCES_OF_A_FOLDER.advised + 1} sources"),
]
HARMLESS = [
    {"src/base/plain.cpp": "double f(double);\nint (*g)(int);\nint a{3};\nauto b = static_cast<Base*>(c);\nauto d = sizeof(int);\n"
                           "std::vector<int> e(3);\nstruct Op { operator bool() const; };\nvoid h(int) {}\n"},
    {"src/base/path.cpp": "bool a = fs::exists(b, error);\nfor (fs::directory_iterator c(b, error); c != fs::directory_iterator(); c.increment(error)) d();\n"
                          "bool e = fs::is_directory(status);\n"},
    {"src/base/path_test.cpp": "bool a = fs::exists(b);\n"},
    {"src/base/table.cpp": "const Row kRows[] = {\n" + "  {f(1), 2},\n" * 80 + "};\n"},
    {"src/base/casts_test.cpp": "auto a = (double)b;\n"},
]


def offences(root):
    checks = checks_of(root, scopes_of(root), casts_by_module(root))
    return [offence for check in checks.values() for offence in check]


def found_in(files, check):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {**CLEAN, **files}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return check(root)


def self_test():
    legal = [{}, *HARMLESS, *(files for files, _ in ADVISED)]
    failures = [f"{list(files)} is legal, but: {found}" for files in legal if (found := found_in(files, offences))]
    for planted, check in [(PLANTED, offences), (ADVISED, lambda root: advice(root, scopes_of(root)))]:
        for files, expected in planted:
            found = found_in(files, check)
            if not any(expected in line for line in found):
                failures.append(f"{list(files)}: expected '{expected}', found {found}")
    print("\n".join(failures) or f"{len(PLANTED)} planted offences and {len(ADVISED)} pieces of advice found, {len(legal)} legal projects passed")
    return 1 if failures else 0


def main():
    parser = cases.parser(__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    root = options.root.resolve()
    scopes, modules = scopes_of(root), casts_by_module(root)
    print_measures(scopes, modules)
    for line in advice(root, scopes):
        print("advice:", line)
    return cases.run(cases.of_checks(checks_of(root, scopes, modules)), options, quiet=True)


if __name__ == "__main__":
    sys.exit(main())
