#!/usr/bin/env bash
# Check that the project can be set up on this machine; print what to install if it cannot.
# usage: check_machine.sh PYTHON
python=$1
fail() { printf 'setup: %s\n' "$1" >&2; exit 2; }

"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null ||
    fail "Python 3.11, 3.12 or 3.13 is needed; found: $("$python" -V 2>/dev/null || echo none). Install one (Debian, Ubuntu: apt-get install python3.11 python3.11-venv python3.11-dev; macOS: brew install python@3.12), or: make setup PYTHON=/path/to/python3.12"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
    fail "$python has no venv module. Debian, Ubuntu: apt-get install $(basename "$(readlink -f "$(command -v "$python")")")-venv"
"$python" -c 'import pathlib, sys, sysconfig; sys.exit(not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists())' ||
    fail "$python has no C headers (Python.h). Debian, Ubuntu: apt-get install $(basename "$(readlink -f "$(command -v "$python")")")-dev"
command -v "${CXX:-c++}" >/dev/null || command -v g++ >/dev/null ||
    fail "fairseq is compiled when it is installed, and there is no C++ compiler. Debian, Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install"
