"""Commands about who may ask a team's server: users, their tokens, and the audit log."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from etq.cli import main
from etq.cli.messages import say
from etq.cli.noting import add_note_of_here
from etq.cli.options import output_options, warehouse_option
from etq.errors import EtqError
from etq.render.writers import write_rows
from etq.team import audit
from etq.team.keys import end_keys
from etq.team.tokens import PREFIX, SHOWN, add_token, revoke_token, revoke_tokens
from etq.team.users import ANYONE, ROLES, add_user, listed, revoke_user, set_role

if TYPE_CHECKING:
    import sqlite3

    from etq.team.folder import TeamFolder

_LENGTHS: Final = {"h": 3600.0, "d": 86400.0, "w": 604800.0}
_TIMES: Final = frozenset({"last_used", "created", "expires", "at"})


def folder_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the folder of a server; the command gets it as `folder`."""

    @wraps(command)
    def finding(*args: Any, db: str, team: str | None, **options: Any) -> Any:
        from etq.team.folder import TeamFolder, folder_of

        db, team = _given("db", db), _given("team", team)
        found = folder_of(db, team)
        if found is None and click.get_current_context().invoked_subcommand is None:
            raise EtqError(f"{db}: a lake has no folder beside it; give the one of its server with --team DIR")
        return command(*args, folder=None if found is None else TeamFolder(found), **options)

    text = "The folder of the server.  [default: that beside the warehouse, FILE.team]"
    return click.option("--team", metavar="DIR", help=text)(warehouse_option(finding))


def _given(name: str, value: Any) -> Any:
    """Return an option, which may stand before the subcommand."""
    context = click.get_current_context()
    sources = [each.get_parameter_source(name) for each in (context, context.parent) if each is not None]
    if context.parent is not None and sources[0] is not ParameterSource.COMMANDLINE is sources[-1]:
        return context.parent.params[name]
    return value


def _lifetime(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """Parse a length of time, such as 90d, as seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,4})([hdw])", text)
    if found is None:
        raise click.BadParameter(f"{text!r} is no length of time; write it like 12h, 90d or 8w")
    return int(found[1]) * _LENGTHS[found[2]]


role_option: Final = click.option("--role", type=click.Choice([*ROLES]), required=True, help="What the user may do.")
note_option: Final = click.option("--note", default="", metavar="TEXT", help="Where the token is used, such as CI.")
expires_option: Final = click.option(
    "--expires", metavar="TIME", callback=_lifetime, help="When the token expires, such as 90d (also h and w)."
)


@main.group(invoke_without_command=True)
@folder_options
@output_options
@click.pass_context
def users(context: click.Context, folder: TeamFolder, format: str | None, output: str | None, force: bool) -> None:
    """List or change the users of a server, and their tokens.

    Each user has a role. A server whose folder has users answers nobody else.

    Roles: read; push: also send captures; label: also change overviews and accept changes; admin: also fetch backups.
    A change holds from the next request on. A token is shown once, when it is made; later, its first characters name
    it.

    \b
    etq users add ci --role push --note 'nightly runner' --expires 90d --db lab.duckdb
    etq users --db lab.duckdb
    etq users revoke ci
    """
    if context.invoked_subcommand is not None:
        return
    with existing(folder).reading() as connection:
        columns, rows = listed(connection)
    write_rows(columns, _texts(columns, rows), format, output, force=force)


@users.command()
@click.argument("name")
@role_option
@click.option("--no-token", is_flag=True, help="Make no token: a proxy knows the user.")
@note_option
@expires_option
@folder_options
def add(name: str, role: str, no_token: bool, note: str, expires: float | None, folder: TeamFolder) -> None:
    """Add a user, and print a token. From the first one on, the server answers only users.

    \b
    etq users add ada --role label --db lab.duckdb
    etq users add ada@example.com --role read --no-token
    """
    if no_token and (note or expires):
        raise click.UsageError("--no-token makes no token; leave out --note and --expires")
    if name.lower() == ANYONE:
        raise EtqError(f"{name}: stands for users of servers without users; choose another name")
    folder.make()
    with folder.writing() as connection:
        add_user(connection, name, ROLES[role])
        token = None if no_token else add_token(connection, name, note, expires)
        _note(connection, "user added", name, role=role, token=None if token is None else token[:SHOWN])
    say(f"{name}: has the role {role}")
    _show(token)


@users.command()
@click.argument("name")
@note_option
@expires_option
@folder_options
def token(name: str, note: str, expires: float | None, folder: TeamFolder) -> None:
    """Make another token for a user, and print it.

    \b
    etq users token ci --note 'second runner'
    """
    with existing(folder).writing() as connection:
        made = add_token(connection, name, note, expires)
        _note(connection, "token added", name, token=made[:SHOWN])
    _show(made)


def _show(token: str | None) -> None:
    if token is not None:
        say("This is the token; it isn't shown again:")
        click.echo(token)


@users.command()
@click.argument("name", metavar="[NAME|TOKEN]", required=False)
@click.option("--all", "of_all", is_flag=True, help="End the tokens of all users, and the keys of badges and feeds.")
@folder_options
def revoke(name: str | None, of_all: bool, folder: TeamFolder) -> None:
    """End a user's access with all tokens, or one token, which its first characters name. Sessions end with it.

    Users who leave may have links of badges and feeds: etq users new-key ends these. In a backup that was restored,
    tokens and users that were revoked since it was made are valid: --all ends all tokens, and users stay.

    \b
    etq users revoke ci
    etq users revoke etq_Zx81mQ0a
    etq users revoke --all
    """
    if of_all == (name is not None):
        raise click.UsageError("name a user or a token, or use --all")
    with existing(folder).writing() as connection:
        if name is None:
            ended = revoke_tokens(connection)
            end_keys(connection)
            _note(connection, "all tokens revoked", "")
            say(f"{ended} token{'' if ended == 1 else 's'} revoked; make new ones with etq users token NAME")
        elif name.startswith(PREFIX):
            user = revoke_token(connection, name)
            _note(connection, "token revoked", user, token=name[:SHOWN])
            say(f"{user}: the token is revoked")
        else:
            ended = revoke_user(connection, name)
            _note(connection, "user revoked", name)
            say(f"{name}: revoked, with {ended} token{'' if ended == 1 else 's'}")


@users.command()
@click.argument("overview", required=False)
@folder_options
def new_key(overview: str | None, folder: TeamFolder) -> None:
    """End the links of the badge and the feed of an overview, or of all overviews. Its page shows new ones.

    The key in such a link is no user's: who has the link reads it, until this ends it.

    \b
    etq users new-key kernels
    """
    with existing(folder).writing() as connection:
        end_keys(connection, overview)
        add_note_of_here(connection, "key ended", {"overview": overview})
    what = "all overviews" if overview is None else overview
    say(f"{what}: former links of badges and feeds are ended; pages of overviews show new ones")


@users.command()
@click.argument("name")
@click.argument("role", type=click.Choice([*ROLES]))
@folder_options
def role(name: str, role: str, folder: TeamFolder) -> None:
    """Change what a user may do.

    \b
    etq users role ada admin
    """
    with existing(folder).writing() as connection:
        set_role(connection, name, ROLES[role])
        _note(connection, "role changed", name, role=role)
    say(f"{name}: has the role {role}")


@users.command("audit")
@folder_options
@output_options
def show_audit(folder: TeamFolder, format: str | None, output: str | None, force: bool) -> None:
    """Show the audit log, the latest first: who signed in, pushed, changed overviews, asked SQL or was refused.

    \b
    etq users audit --limit 20 --db lab.duckdb
    etq users audit --format csv -o audit.csv
    """
    with existing(folder).reading() as connection:
        columns, rows = audit.noted(connection)
    write_rows(columns, _texts(columns, rows), format, output, force=force)


def _note(connection: sqlite3.Connection, action: str, name: str, **details: str | None) -> None:
    """Note a change of users, by the account of this machine."""
    add_note_of_here(connection, action, {"user": name, **details})


def existing(folder: TeamFolder) -> TeamFolder:
    """Return a folder. Raises `EtqError` if it doesn't exist."""
    if not folder.exists:
        raise EtqError(f"{folder.path}: no such folder; add the first user with etq users add NAME --role admin")
    return folder


def _texts(columns: list[str], rows: list[tuple[Any, ...]]) -> list[tuple[str | None, ...]]:
    """Return rows as texts, times in UTC."""
    return [tuple(_text(name, value) for name, value in zip(columns, row, strict=True)) for row in rows]


def _text(column: str, value: Any) -> str | None:
    if value is None:
        return None
    if column in _TIMES:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return str(value)
