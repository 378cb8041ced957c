"""The Linux kernel: namespaces, cgroups, sockets, counters, commands and signals."""
