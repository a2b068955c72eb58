"""HTTP/1.1 as it is spoken to others: connections, and pools of them."""
