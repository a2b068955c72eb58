"""The APIs the gateway understands: what a request asks for, what an answer used, how each says no."""
