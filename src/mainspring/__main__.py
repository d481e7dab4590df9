"""Makes `python -m mainspring` the same as the command `mainspring`."""

from mainspring.cli.main import main

if __name__ == "__main__":
    main()
