"""The aggregator: takes in what agents read, keeps it exact and durable, and answers for it."""

import os

# Before anybody imports grpc: it writes a line for every failed handshake, and strangers could fill a disk with them.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
