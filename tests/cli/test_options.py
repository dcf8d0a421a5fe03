"""Options follow from parameters: their words, their checks and their groups in the help."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

import mlat
from cli_runs import refused, run
from mlat.base.checks import Limits
from mlat.cli import app
from mlat.cli.fit import CLASSIFIER, METRIC
from mlat.cli.live import POLICIES
from mlat.cli.options import PANELS, Options, described, in_flags, with_options, words_of

COMMANDS = {
    name: command for name, command in get_command(app).commands.items() if not command.hidden
}


def brew(
    strength: Annotated[int, Limits(1)] = 3,
    kind: Literal["black", "green"] = "black",
    wait: Annotated[float, Limits(0)] | Literal["long"] = "long",
    sugar: Annotated[float, Limits(0)] | None = 1.5,
    iced: bool = False,
    guests: list[str] | None = None,
) -> None:
    """Make tea.

    Parameters
    ----------
    strength : int, default=3
        Spoons of tea; with ``kind="green"`` fewer. More than you think.
    kind : "black" or "green", default="black"
        What is brewed.
    wait : float or "long", default="long"
        Minutes. See ``strength``.
    sugar : float or None, default=1.5
        Pieces.
    iced : bool, default=False
        With ice.
    guests : list of str, optional
        Who drinks it. Default: nobody.

    Returns
    -------
    None
    """


def calls(*arguments):
    found = []

    @with_options(given=Options(brew, " ".join(words_of(brew)), {"guests": "A,B"}, ("guests",)))
    def command(given: dict) -> None:
        found.append(given)
        if given.get("strength") == 99:
            raise mlat.InputError('strength 99 needs kind="green"')

    alone = typer.Typer()
    alone.command()(command)
    get_command(alone)([*arguments], standalone_mode=False)
    return found[0]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ([], {}),
        (["--strength", "4", "--kind", "green"], {"strength": 4, "kind": "green"}),
        (["--wait", "2.5", "--sugar", "off"], {"wait": 2.5, "sugar": None}),
        (["--wait", "long", "--sugar", "0"], {"wait": "long", "sugar": 0}),
        (["--iced", "--guests", "a,b", "--guests", "c"], {"iced": True, "guests": list("abc")}),
    ],
)
def test_only_what_was_given_is_passed_on(arguments, given):
    assert calls(*arguments) == given


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--strength", "0"], "--strength must be a whole number of at least 1, not 0"),
        (["--wait", "soon"], "--wait must be a number of at least 0 or \"long\", not 'soon'"),
        (["--sugar", "-1"], "--sugar must be a number of at least 0 or off, not -1"),
        (["--guests", "a,,b"], "--guests a,,b has an empty name"),
        (["--strength", "99"], "--strength 99 needs --kind green"),
    ],
)
def test_the_command_refuses_what_the_parameter_does_and_names_flags(arguments, words):
    with pytest.raises(mlat.InputError, match=f"^{words}"):
        calls(*arguments)


def test_words_are_the_first_sentence_and_that_about_the_default():
    words = words_of(brew)
    assert words["strength"] == 'Spoons of tea; with ``kind="green"`` fewer.'
    assert words["guests"] == "Who drinks it. Default: nobody."
    assert in_flags(words["strength"], list(words)) == "Spoons of tea; with --kind green fewer."
    helps = {
        p.name: p.annotation.__metadata__[0].help for p in Options(brew, "kind wait").parameters()
    }
    assert helps == {
        "kind": "What is brewed: black (default) or green.",
        "wait": "Minutes; default long.",
    }


def test_a_docstring_has_the_words_of_options():
    @described
    def pour(cups: int = 1, out: Path | None = None, hot: bool = True, iced: bool = False) -> None:
        """Pour tea.

        Parameters
        ----------
        cups : N
            How many cups,
            of tea.
        out : FILE
            Where to pour it.
        hot
            Heat it at all.
        iced
            With ice.
        """

    alone = typer.Typer(add_completion=False)
    alone.command()(pour)
    command = get_command(alone)
    assert command.help == "Pour tea."
    told = {one.name: (one.opts, one.secondary_opts, one.help) for one in command.params}
    assert told == {
        "cups": (["--cups"], [], "How many cups, of tea."),
        "out": (["-o", "--out"], [], "Where to pour it."),
        "hot": (["--hot"], ["--no-hot"], "Heat it at all."),
        "iced": (["--iced"], [], "With ice."),
    }
    assert [one.metavar for one in command.params[:2]] == ["N", "FILE"]


@pytest.mark.parametrize("group", [CLASSIFIER, METRIC, POLICIES])
def test_every_parameter_of_a_command_has_words(group):
    for parameter in group.parameters():
        said = parameter.annotation.__metadata__[0].help
        assert said[0].isalnum() or said.startswith("--"), said
        assert "`" not in said
        assert len(said) < 300


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_a_group_and_readable_on_a_narrow_terminal(name):
    command = COMMANDS[name]
    options = [one for one in command.params if one.param_type_name == "option"]
    assert {one.rich_help_panel for one in options} <= set(PANELS)
    shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80"}).stdout
    assert max(map(len, shown.splitlines())) <= 80
    for one in options:
        line = re.search(rf"^│[* ]+{max(one.opts, key=len)} .*", shown, re.MULTILINE)
        assert line[0].index(f" {one.help.split()[0]} ") < 45  # more than half a line for words


def test_the_list_of_commands_imports_none():
    code = (
        "import sys\n"
        "from mlat.cli import main\n"
        "sys.argv = ['mlat', '--help']\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    heavy = {'numba', 'sklearn', 'pyarrow', 'scipy', 'mlat.cli.fit'} & set(sys.modules)\n"
        "    print(heavy, file=sys.stderr)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.stderr == "set()\n"
    for command in COMMANDS.values():
        assert command.short_help in " ".join((command.help or "").split())
        assert command.short_help.split()[-1] in told.stdout


def test_an_option_of_before_is_not_known():
    line = refused("fit", "walk.csv", "--step", "3", "-o", "x.mlat")
    assert "No such option" in line
    assert "--stride" in run("fit", "--help")[0]
