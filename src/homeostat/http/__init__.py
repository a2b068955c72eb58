"""HTTP/1.1 as we speak it to others, once for all who do: the gateway to its upstreams, the SDK to its server."""
