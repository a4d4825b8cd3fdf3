"""Real S3 stores, real clients, and what the tests do with them."""
