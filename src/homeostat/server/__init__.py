"""The HTTP and WebSocket face: it translates, authorises and renders, and has no rules of its own."""
