"""The HTTP SDK that remote agents, tool services and the command line use."""
