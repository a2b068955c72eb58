"""Makes `python -m homeostat` the same as the `homeostat` command."""

from homeostat.cli import main

if __name__ == "__main__":
    main()
