"""Runs the subjects named on the command line, or all of them."""

import sys
from importlib import import_module
from pkgutil import iter_modules

import benchmarks
from benchmarks._measure import interpreter


def main(wanted: list[str]) -> int:
    subjects = [module.name for module in iter_modules(benchmarks.__path__) if not module.name.startswith("_")]
    if unknown := set(wanted) - set(subjects):
        print(f"no such subject: {', '.join(sorted(unknown))} (there are: {', '.join(subjects)})", file=sys.stderr)
        return 2
    print(interpreter(), flush=True)
    for subject in wanted or subjects:
        import_module(f"benchmarks.{subject}").run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
