"""What travels over HTTP: one shape per body, read and written by the server and the client alike."""
