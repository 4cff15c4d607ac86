"""Harvest's images and packages, made of Debian packages and pinned wheels, without an image builder or a hub."""
