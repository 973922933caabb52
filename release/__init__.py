"""What makes the packages that are published: the native hook client, and the wheels."""
