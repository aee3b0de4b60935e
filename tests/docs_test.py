#!/usr/bin/env python3
"""Checks the documentation without running anything: every path, name and quoted line of code
exists, and no former word of docs/glossary.md comes back. docs_commands_test.py runs the commands.

    docs_test.py [ROOT]           [--only PAGE] [--list] [--xml FILE]: checks README.md and docs of the project ROOT
    docs_test.py --words PART...  lists former words in files and folders
    docs_test.py --self-test      plants one offence of each kind

Python's standard library only.
"""

import re
import sys
import tempfile
from pathlib import Path

from support import cases

MAX_LINES_OF_A_LESSON = 75
# Where former words are looked for.
WORDS_SCOPE = ["README.md", "CONTRIBUTING.md", "docs", "src", "tests", "examples", "bench"]

PROJECT_PARTS = ("src/", "docs/", "tests/", "examples/", "configs/", "cmake/", "bench/", ".ci/")

# The pages that explain the keys which a source reads. Those of plans and costs are listed in
# docs/configuration.md alone, which the test KeyReference compares with the parsers.
PAGES_OF_KEYS = {
    "docs/training.md": "src/training/config/config.cpp",
    "docs/data.md": "src/training/config/internal/data_config.cpp",
    "docs/models.md": "src/ir/models/settings.cpp",
}

KEY = re.compile(r"table\.\w+\(\s*\"(\w+)\"|\{\"(\w+)\",\s*&\w+Config::")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_BLOCK = re.compile(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME_IN_FILE = re.compile(r"`([A-Za-z][\w:]*)`\s+in\s+`([\w./]+\.(?:h|cpp))`")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
CODE = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"[A-Za-z]\w*(?:::\w+)?")


def pages(root):
    return [root / "README.md", *(page for page in [root / "CONTRIBUTING.md"] if page.is_file()), *sorted((root / "docs").rglob("*.md"))]


def blocks(page, language):
    return [body for name, body in BLOCK.findall(page.read_text()) if name == language]


def commands(page):
    joined = [re.sub(r"\s*\\\n\s*", " ", body) for body in blocks(page, "sh")]
    lines = [line.strip() for body in joined for line in body.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def prose(page):
    """The page without its blocks of code; of the glossary without the former names."""
    text = page.read_text()
    if page.name == "glossary.md":
        text = text.split("\n## Former names")[0]
    return BLOCK.sub("", text)


def sources(root):
    """The texts of all of them."""
    return [
        path.read_text()
        for part in ("src", "examples", "tests", "bench")
        for ending in ("*.h", "*.cpp", "CMakeLists.txt")
        for path in (root / part).rglob(ending)
    ]


# ---- what is written ----


def anchors(page):
    """The anchors that a heading of a page has on GitHub."""
    for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def check_links(root, page):
    for target, anchor in LINK.findall(prose(page)):
        path = page.parent / target if target else page
        if "://" in target:
            continue
        if not path.exists():
            yield f"links to {target}, which does not exist"
        elif anchor and path.suffix == ".md" and anchor not in anchors(path):
            yield f"links to {target}#{anchor}, a heading that does not exist"


def is_path(text):
    if not re.fullmatch(r"[\w./-]+", text):
        return False
    return text.startswith(PROJECT_PARTS) or bool(re.search(r"/\w+\.(?:h|cpp|md)$", text))


def check_paths(root, page):
    """A path begins at the project, or at src/ where it names a layer: `ir/ops/operator.h`."""
    words = [re.findall(r"(?<!\S)[\w./]+(?!\S)", body) for body in blocks(page, "text")]
    for text in CODE.findall(prose(page)) + [word for block in words for word in block]:
        if is_path(text) and not (root / text).exists() and not (root / "src" / text).exists():
            yield f"names {text}, which does not exist"


def check_names(page, words):
    """Names with an underscore, a scope or a capital inside are names of the code."""
    for text in CODE.findall(prose(page)):
        if not NAME.fullmatch(text) or not re.search(r"_|::|[a-z][A-Z]", text):
            continue
        if not {text.split("::")[-1], text.replace("::", "_")} & words:
            yield f"names {text}, which is in no source"


def check_places(root, page):
    """`NAME` in `FILE`: the file has the name."""
    for name, file in NAME_IN_FILE.findall(prose(page)):
        paths = [path for path in (root / file, root / "src" / file) if path.is_file()]
        word = re.compile(rf"\b{name.split('::')[-1]}\b")
        if paths and not word.search(paths[0].read_text()):
            yield f"names {name} in {file}, which does not have it"


def check_quotes(page, lines):
    for body in blocks(page, "cpp"):
        for line in body.splitlines():
            if line.strip() not in lines:
                yield f"quotes '{line.strip()}', which is in no source"


def check_files(root, page):
    """A block behind <!-- file: PATH --> is that file."""
    for path, body in FILE_BLOCK.findall(page.read_text()):
        if not (root / path).is_file() or (root / path).read_text() != body:
            yield f"quotes {path}, which reads otherwise"


def check_keys(root):
    """The pages that explain tables of a configuration have every key that the program reads."""
    for name, source in PAGES_OF_KEYS.items():
        page, path = root / name, root / source
        if not page.is_file() or not path.is_file():
            continue
        words = set(re.findall(r"`\"?(\w+)\"?[:`]", page.read_text()))
        words |= set(re.findall(r"`(?:\w+\.|\[)(\w+)\]?`", page.read_text()))
        for key in dict.fromkeys(key for found in KEY.findall(path.read_text()) for key in found):
            if key and key not in words:
                yield f"{name}: lacks the key {key} of {source}"


def check_lessons(root):
    for path in sorted((root / "examples").glob("*/main.cpp")):
        lines = path.read_text().count("\n")
        if lines > MAX_LINES_OF_A_LESSON:
            limit = f"at most {MAX_LINES_OF_A_LESSON}: a lesson fits on a page"
            yield f"{path.relative_to(root)}: {lines} lines, {limit}"


def check_modules(root):
    """The page on the architecture has a row for each module."""
    page = root / "docs" / "architecture.md"
    text = page.read_text() if page.is_file() else ""
    rows = set(re.findall(r"^\| `?([\w/]+)`? \|", text, re.MULTILINE))
    for path in sorted((root / "src").rglob("CMakeLists.txt")):
        for module in re.findall(r"^tessera_module\(([\w/]+)", path.read_text(), re.MULTILINE):
            if module not in rows:
                yield f"docs/architecture.md: has no row for the module {module}"


def checks_of(root):
    """The offences of each page, then those of the whole."""
    texts = sources(root)
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    lines = {line.strip() for text in texts for line in text.splitlines()}
    checks = {str(page.relative_to(root)): check_page(root, page, words, lines) for page in pages(root)}
    return checks | {
        "modules": check_modules(root),
        "keys": check_keys(root),
        "lessons": check_lessons(root),
        "former words": word_offences(root, WORDS_SCOPE),
    }


def check_page(root, page, words, lines):
    checks = [
        check_links(root, page),
        check_paths(root, page),
        check_names(page, words),
        check_places(root, page),
        check_quotes(page, lines),
        check_files(root, page),
    ]
    for check in checks:
        yield from (f"{page.relative_to(root)}: {offence}" for offence in check)


# ---- former words ----

# Words of prose: a pattern, what to say instead, and the contexts or files where it is right.
# A context is searched in the 20 characters before the word, the word, and the 20 after it.
FORMER_WORDS = [
    (r"crews?", "thread pool", None, None),
    (r"stripes?|striped", "chunk", None, None),
    (r"under ?way", "in flight", None, None),
    (r"ahead of (?:its|their|the) turn", "prefetched", None, None),
    (r"begins? ahead|exchanges ahead", "prefetched", None, None),
    (r"whoever|nobody", "the subject that is meant", None, None),
    (r"addends?", "partial value", None, None),
    (r"torn", "replica mismatch", r"torn (?:write|file|page)", None),
    (r"patience", "spin policy", None, r"training/|examples/06|docs/|cli|config"),
    (r"t(?:ake|aken|akes|aking|ook) apart", "decomposed", None, None),
    (r"wish(?:es)?", "candidate", None, None),
    (r"standings?", "symbolic placement", None, None),
    (r"trips?", "iteration", r"round.trip|trip count", None),
    (r"h(?:and|ands|anded|anding) back", "release", None, None),
    (
        r"circles?",
        "cycle",
        None,
        r"data/|docs/data\.md|training/config/internal/data_config|configs/unet|ir/models/unet",
    ),
    (r"go(?:es)? without saying", "the default", None, None),
    (r"far pulls?", "remote receive", None, None),
    (r"signs? of life", "heartbeat", None, None),
    (r"judge[sd]?", "reference interpreter", None, None),
    (r"rooms?", "module", r"(?:no|enough|more|much|has|leaves?|makes?) room|room for", None),
    (
        r"floors?",
        "layer",
        r"floor\(|[\"'`.]floor|price.{0,12}floor|ceil",
        r"ops/|kernels/|cost/|autodiff/|operators\.md|costs\.md",
    ),
    (r"house", "project", None, None),
    (r"meetings?", "host all-gather", None, None),
    (
        r"(?:each|every|other|another|several|all|between|of the|over|any|one) members?",
        "process",
        r"members? (?:function|variable|init)|data member",
        r"base/",
    ),
    (r"members of (?:a|one|the|this) (?:run|program)", "processes", None, None),
    (r"lies", "is, is stored", None, None),
    (r"travels?|travell?ed|travell?ing", "is sent", r"time.travel", None),
    (r"foretells?|foretold", "simulates, predicts", None, None),
    (r"virtual clocks?", "simulated clock", None, None),
    (r"dying|lent memory|relief", "last use, staging buffer, progress", None, None),
    (r"mend(?:s|ed|ing)?", "fix", None, None),
    (r"draws?|drew|drawn|undrawn", "initialize, sample", r"`draw`", r"data/|docs/data\.md"),
    (r"are the likeliest|bar to beat|of one's own", "accuracy, baseline, custom", None, None),
    (r"sums? forms?|by.axis form", "all-reduce algorithm", None, None),
    (r"cones?|coned", "op cluster", None, None),
    (r"resolved (?:shardings?|plans?)", "explicit shardings", None, None),
    (r"half hidden|hidden shares?", "overlap", None, None),
    (r"plannings", "plan search", None, None),
    (r"polish(?:ed|es)?", "local search", r"--polish|polish_trials", None),
    (r"data outside of", "dp outermost", None, None),
    (r"but for", "except for", r"but for (?:one token|now)", None),
    (r"that are none", "invalid", None, None),
    (r"folded ranks", "representative ranks", None, None),
]

# Names of code and keys of plans: searched everywhere.
FORMER_NAMES = re.compile(
    r"\b(?:most_\w+|kMost[A-Z]\w*|overlap_mib|SumForm|kStripesThatPay|kOverlapWindow|Standings?|Lives|Wish|InTime|StepsUnderWay"
    r"|BegunStep|Crew|FarPulls|AheadExchange|Patience|speaks|max_trips|kWholeRun|kNumbers"
    r"|tessera_room|split_matmuls|take_stripe|join_stripes"
    r"|Cones|ConedGraph|ConeReading|CopyLife|KnownPulls|PulledElements|TravellingPull|HeldPlacements"
    r"|WaitingBlocks|needed_overwrites|waste_of|kWasteShare|kept_front|SavedPresets|PlanningAnswer"
    r"|PlanningOptions|StageLevels|StagedChoice|StageWay|ModelLine|CutClock|hidden_share|folds_ranks"
    r"|RowsOf|NumberedText|EqualGraphs|GatedCompilation|CompileGates|kLeast[A-Z]\w*)\b"
)

CPP_PROSE = re.compile(
    r"//(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/"
    r"|R\"(?P<mark>[^(\s]*)\((?P<raw>.*?)\)(?P=mark)\""
    r"|\"(?P<text>(?:\\.|[^\"\\\n])*)\"|'(?:\\.|[^'\\\n])'",
    re.DOTALL,
)
WORD_PATTERNS = [
    (
        re.compile(rf"(?<![\w-])(?:{word})(?![\w-])", re.IGNORECASE),
        say,
        context and re.compile(context),
        files and re.compile(files),
    )
    for word, say, context, files in FORMER_WORDS
]
ANY_WORD = re.compile(
    "|".join(rf"(?<![\w-])(?:{word})(?![\w-])" for word, *_ in FORMER_WORDS), re.IGNORECASE
)
# Files that refuse former names, and so name them.
REFUSALS = re.compile(r"src/compiler/plan/plan(?:_test)?\.cpp|tests/errors/|tests/planted_faults\.json")
WORD_ENDINGS = {".h", ".cpp", ".md", ".py", ".toml", ".json", ".txt", ".cmake", ".pml"}


def only_prose(path, text):
    """The text with all that is not prose blanked: of C++ the code, of comments their marks.
    Of the glossary the former names, which are its subject. Line breaks stay where they are."""
    if path.name == "glossary.md":
        return text.split("\n## Former names")[0]
    if path.suffix in (".py", ".toml", ".cmake", ".txt"):
        return re.sub(r"(?m)^[ \t]*#", lambda mark: " " * len(mark.group()), text)
    if path.suffix not in (".h", ".cpp", ".pml"):
        return text
    blanked = [character if character == "\n" else " " for character in text]
    for match in CPP_PROSE.finditer(text):
        group = next((name for name in ("line", "block", "raw", "text") if match.group(name)), None)
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        is_name = group == "text" and not re.search(r"\s", match.group(group))
        if group and not is_name and not re.match(r"\s*#\s*include", line):
            begin, end = match.span(group)
            while group == "line" and begin < end and text[begin] in "/!":
                begin += 1
            blanked[begin:end] = text[begin:end]
    return "".join(blanked)


def former_words(path, text):
    """(line, word, what to say) for each former word of a file."""
    prose_text = only_prose(path, text)
    yield from words_of_prose(path, prose_text)
    names_in = prose_text if path.name == "glossary.md" else text
    for match in FORMER_NAMES.finditer(names_in):
        line = names_in.count("\n", 0, match.start()) + 1
        yield line, match.group(), "the name in docs/glossary.md"


def words_of_prose(path, text):
    pieces = [match.span() for match in re.finditer(r"\S+", text)]
    line_text = " " + " ".join(text[begin:end] for begin, end in pieces)  # a phrase may go over two lines
    if not ANY_WORD.search(line_text):
        return
    offsets = [offset for begin, end in pieces for offset in range(begin - 1, end)]
    for pattern, say, context, files in WORD_PATTERNS:
        if files and files.search(path.as_posix()):
            continue
        for match in pattern.finditer(line_text):
            around = line_text[max(0, match.start() - 20) : match.end() + 20]
            if not (context and context.search(around)):
                yield text.count("\n", 0, offsets[match.start()]) + 1, match.group(), say


def files_of(root, parts):
    for part in parts:
        start = root / part
        paths = [start] if start.is_file() else sorted(start.rglob("*"))
        for path in paths:
            own = path.name == Path(__file__).name
            refuses = REFUSALS.search(path.as_posix())
            if path.is_file() and path.suffix in WORD_ENDINGS and not own and not refuses:
                yield path


def word_offences(root, parts):
    for path in files_of(root, parts):
        text = path.read_text(errors="replace")
        for line, word, say in sorted(former_words(path, text)):
            where = f"{path.relative_to(root)}:{line}"
            yield f"{where}: '{' '.join(word.split())}' is a former word, say: {say}"


# ---- the self-test ----

CLEAN = {
    "README.md": "# Name\n\nSee [more](docs/more.md), `src/ops/add.cpp`, `ops/add.cpp`, "
    "`add_two`.\n\n```sh\n./dev test\n./dev tessera hello\n```\n",
    "docs/glossary.md": "Words.\n\n## Former names\n\naddend\n",
    "docs/more.md": "```cpp\nint add_two(int x);\n```\n",
    "docs/architecture.md": "| ops | adds |\n",
    "src/ops/CMakeLists.txt": "tessera_module(ops)\n",
    "src/ops/add.cpp": "int add_two(int x);\n",
    "examples/01/main.cpp": "\n" * MAX_LINES_OF_A_LESSON,
    ".ci/run": "",
}

PLANTED = [
    ({"docs/more.md": "[gone](gone.md)\n"}, "docs/more.md: links to gone.md"),
    ({"docs/more.md": "# A\n\n[b](#b)\n"}, "docs/more.md: links to #b"),
    ({"docs/more.md": "`src/ops/gone.cpp`\n"}, "docs/more.md: names src/ops/gone.cpp"),
    ({"docs/more.md": "`ops/gone.h`\n"}, "docs/more.md: names ops/gone.h"),
    ({"docs/more.md": "`add_three`\n"}, "docs/more.md: names add_three"),
    ({"docs/more.md": "```cpp\nint add_two(int y);\n```\n"}, "quotes 'int add_two(int y);'"),
    (
        {"src/ops/attic/CMakeLists.txt": "tessera_module(ops/attic)"},
        "docs/architecture.md: has no row for the module ops/attic",
    ),
    (
        {"docs/more.md": "<!-- file: src/ops/add.cpp -->\n```text\nother\n```\n"},
        "docs/more.md: quotes src/ops/add.cpp",
    ),
    ({"docs/more.md": "`add_two` in\n`ops/b.cpp`\n", "src/ops/b.cpp": ""}, "add_two in ops/b.cpp"),
    (
        {"docs/models.md": "`mesh`\n", "src/ir/models/settings.cpp": 'table.raw("mesh"); table.text("axis", "")'},
        "docs/models.md: lacks the key axis of src/ir/models/settings.cpp",
    ),
    ({"docs/more.md": "Exchanges are\nunder\nway.\n"}, "docs/more.md:2: 'under way'"),
    ({"docs/more.md": "The key `most_kept`.\n"}, "docs/more.md:1: 'most_kept'"),
    ({"docs/glossary.md": "An addend.\n"}, "docs/glossary.md:1: 'addend'"),
    ({"examples/01/main.cpp": "\n" * (MAX_LINES_OF_A_LESSON + 1)}, "a lesson fits on a page"),
]

# What former_words finds in sources: the text, and its offences.
SOURCES_WITH_WORDS = [
    ("int crew = 1;  // a crew", [(1, "crew")]),
    ("/// All that is under\n/// way.\nint x;", [(1, "under way")]),
    ('void f() { fail("no process speaks of a trip"); }', [(1, "speaks"), (1, "trip")]),
    ('#include "ops/judge.h"\nint round_trip;  // a round trip; the trip count', []),
    ("SumForm form;", [(1, "SumForm")]),
]

def offences_of(files):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {**CLEAN, **files}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return [offence for check in checks_of(root).values() for offence in check]


def word_failures():
    for text, expected in SOURCES_WITH_WORDS:
        path = Path("src/a.cpp")
        words = sorted(former_words(path, text))
        found = [(line, " ".join(word.split())) for line, word, _ in words]
        if found != expected:
            yield f"{text!r}: expected {expected}, found {found}"


def self_test():
    failures = [f"the clean project has: {found}"] if (found := offences_of({})) else []
    for files, expected in PLANTED:
        found = offences_of(files)
        if not any(expected in offence for offence in found):
            failures.append(f"{list(files)}: expected '{expected}', found {found}")
    failures += word_failures()
    print("\n".join(failures) or f"{len(PLANTED)} planted offences found")
    return 1 if failures else 0


def main():
    parser = cases.parser(__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("--words", nargs="+", metavar="PART", help="list former words in these")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    root = options.root.resolve()
    if options.words:
        found = list(word_offences(root, options.words))
        print("\n".join(found))
        return 1 if found else 0
    return cases.run(cases.of_checks(checks_of(root)), options, quiet=True)


if __name__ == "__main__":
    sys.exit(main())
