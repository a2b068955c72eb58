"""The smallest agent there is: a function that is called with the turn.

homeostat worker examples.hello:hello
homeostat enqueue hello '{"name": "Ada"}' --wait
"""

from homeostat import Turn


async def hello(turn: Turn) -> dict[str, str]:
    """Greet whoever is named in the message."""
    match turn.input:
        case {"name": name} | str(name):
            return {"greeting": f"Hello, {name}!"}
        case _:
            return {"greeting": "Hello, whoever you are!"}
