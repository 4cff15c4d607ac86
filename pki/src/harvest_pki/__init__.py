"""The site's certificate authority, its certificates, and who they speak for."""
