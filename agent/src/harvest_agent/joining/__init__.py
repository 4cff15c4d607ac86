"""``harvest-agent join``: gets a server's certificate and configuration with a token, and later another in time."""
