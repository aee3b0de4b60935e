#!/usr/bin/env python3
"""The environment of the client tests: the programs of requirements.txt in a folder of the user's cache.

    environment.py    makes it, prints what can be imported, and fails where something cannot

A test begins with `environment.enter()`, which runs it again by the Python of that folder. Where there is none, the test
says that it is skipped; with TESSERA_CLIENTS_REQUIRED in the environment it fails instead.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import venv

REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")
MODULES = ("torch", "transformers", "safetensors", "torchtitan.config.manager", "megatron.core.transformer", "megatron.core.parallel_state")
MINUTES = 15


def folder():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return cache / "tessera" / "clients" / hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]


def python():
    """The Python of the environment; None where it was not made."""
    path = folder() / "bin" / "python"
    return path if (folder() / "made").exists() else None


def make():
    place = folder()
    if python():
        return
    shutil.rmtree(place, ignore_errors=True)
    try:
        venv.create(place, with_pip=True)
        subprocess.run([place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS],
                       check=True, timeout=60 * MINUTES, stdin=subprocess.DEVNULL)
    except (subprocess.SubprocessError, OSError) as error:
        shutil.rmtree(place, ignore_errors=True)
        sys.exit(f"clients: the environment could not be made within {MINUTES} minutes: {error}")
    (place / "made").touch()


def report():
    """Prints what can be imported; true when all can."""
    works = True
    for name in MODULES:
        code = f"import {name}, sys; print(getattr(sys.modules['{name.split('.')[0]}'], '__version__', ''))"
        result = subprocess.run([python(), "-W", "ignore", "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        last = (result.stderr.strip().splitlines() or [""])[-1]
        print(f"clients: {name}: {result.stdout.strip() if result.returncode == 0 else 'cannot be imported: ' + last}")
        works = works and result.returncode == 0
    return works


def enter():
    """Goes on in the environment, or ends the test."""
    if pathlib.Path(sys.prefix).resolve() == folder().resolve():
        return
    if not python():
        if os.environ.get("TESSERA_CLIENTS_REQUIRED"):
            sys.exit("clients: there is no environment, and TESSERA_CLIENTS_REQUIRED asks for it: run ./dev clients")
        print("clients: skipped: there is no environment; ./dev clients makes it")
        sys.exit(0)
    os.execv(python(), [str(python()), "-W", "ignore", *sys.argv])


if __name__ == "__main__":
    make()
    sys.exit(0 if report() else 1)
