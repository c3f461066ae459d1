"""Messages of the steps name arguments; a person at a shell knows options."""

from __future__ import annotations

import argparse
import re

#: Names that messages of a command use for an option of another name.
_OTHER_NAMES = {"limit_root": "--limit"}


def with_options(message: str, command: argparse.ArgumentParser) -> str:
    """The message with the options of the command in place of the arguments behind them.

    A name with an underscore is an argument's wherever it stands; a plain word only where a sentence begins with it.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> _ = parser.add_argument("--n-bins"), parser.add_argument("--alias")
    >>> with_options("n_bins must be an integer, alias too", parser)
    '--n-bins must be an integer, alias too'
    >>> with_options("alias must be the name of an alias", parser)
    '--alias must be the name of an alias'
    """
    known = _options(command)
    known |= {name: option for name, option in _OTHER_NAMES.items() if option in known.values()}
    for name, option in known.items():
        word = re.escape(name)
        if "_" in name:
            message = re.sub(rf"(?<![\w.'\"-]){word}(?![\w'\"=(])", option, message)
        else:
            message = re.sub(rf"(?m)^(- )?{word}(?= must )", rf"\g<1>{option}", message)
    return message


def _options(command: argparse.ArgumentParser) -> dict[str, str]:
    """Argument of the step: the option, or the placeholder of a positional one."""
    return {
        action.dest: action.option_strings[0] if action.option_strings else str(action.metavar)
        for action in command._actions  # noqa: SLF001 argparse has no other way to list them
        if action.dest not in ("help", argparse.SUPPRESS)
    }
