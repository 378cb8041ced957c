"""The kubernetes testbed: real servers and tools in pods of a cluster."""
