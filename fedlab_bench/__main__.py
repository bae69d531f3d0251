"""The command line: ``python -m fedlab_bench COMMAND``, each with its ``--help``."""

from fedlab_mini.command import terminal

from . import command

main = terminal()(command.main)

if __name__ == "__main__":
    main()
