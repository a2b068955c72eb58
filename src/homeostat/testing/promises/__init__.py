"""The lifecycle contract, one coroutine per promise, named after what must hold."""
