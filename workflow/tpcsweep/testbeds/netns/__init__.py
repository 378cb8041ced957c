"""The netns testbed: real servers and tools in network namespaces of one Linux machine."""
