"""Who may do what: keys, logins, one table of permissions, and a log of what operators did."""
