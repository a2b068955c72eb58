"""The `homeostat` command: one module per noun, each loaded without dragging in a server."""


def main() -> None:
    """Run the command line; the application is imported here so that importing this package is free."""
    from homeostat.cli.application import application

    application(prog_name="homeostat")
