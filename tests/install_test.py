#!/usr/bin/env python3
"""An installation, and programs of others that use it.

    install_test.py BUILD SOURCE CXX [--only NAME] [--list] [--xml FILE]

Installs the build folder BUILD into a temporary folder, runs the installed program, and builds the program of
docs/training.md against the installation with the compiler CXX. That add_subdirectory has the same targets is checked
by configuring a project around SOURCE.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import cases

BUILD = SOURCE = pathlib.Path()
CXX = ""


def run(*words, cwd=None):
    result = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, timeout=280, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, f"{words}: exit code {result.returncode}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
    return result.stdout


def project_of(page):
    """The CMakeLists.txt that the page shows for a program outside of the project."""
    text = (SOURCE / page).read_text()
    (block,) = [block for block in re.findall(r"```cmake\n(.*?)```", text, re.DOTALL) if "find_package(tessera" in block]
    return block


class Install(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def write_project(self, cmake):
        project = self.folder / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(cmake)
        shutil.copy(SOURCE / "examples" / "07_own_network" / "main.cpp", project / "main.cpp")
        return project

    def test_the_installed_program_runs_and_a_program_builds_against_the_libraries(self):
        prefix = self.folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", prefix)
        self.assertIn("tessera", run(prefix / "bin" / "tessera", "--version"))
        self.assertFalse(list((prefix / "include").rglob("testing")))
        project = self.write_project(project_of("docs/training.md"))
        run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={CXX}")
        run("cmake", "--build", project / "build")
        self.assertTrue(run(project / "build" / "own_model", cwd=SOURCE))

    def test_a_project_around_the_sources_has_the_same_targets(self):
        cmake = project_of("docs/training.md").replace("find_package(tessera REQUIRED)", f"add_subdirectory({SOURCE} tessera)")
        project = self.write_project(cmake)
        run("cmake", "-G", "Ninja", "-S", project, "-B", project / "build", f"-DCMAKE_CXX_COMPILER={CXX}")
        self.assertIn("own_model", run("ninja", "-C", project / "build", "-t", "targets", "all"))


if __name__ == "__main__":
    options = cases.parser(__doc__, "build", "source", "cxx").parse_args()
    BUILD, SOURCE, CXX = pathlib.Path(options.build), pathlib.Path(options.source).resolve(), options.cxx
    sys.exit(cases.run(cases.tests_of(sys.modules[__name__]), options))
