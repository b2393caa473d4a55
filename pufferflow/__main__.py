"""`python -m pufferflow`, which is the command `pufferflow`."""

from pufferflow.cli import main

if __name__ == "__main__":
    main()
