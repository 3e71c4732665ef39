"""The command line: `mnemon COMMAND …`. A module here declares its commands in COMMANDS, and nothing else lists them.

Exit codes: 0 done, 2 bad input (one sentence on stderr), 130/143 stopped by SIGINT/SIGTERM with everything saved.
Heavy parts (torch, matplotlib) are imported by the command that needs them: `mnemon --help` answers at once.
"""

from mnemon.cli.entry import main

__all__ = ["main"]
