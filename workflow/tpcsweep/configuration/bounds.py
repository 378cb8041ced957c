# SPDX-License-Identifier: Apache-2.0
"""The bounds of the numbers that people write in files, each with its reason.

They keep out what means nothing anywhere. What a testbed can do binds further: `checks`, and `limits` of each kind.
Where a reason has two parts, the first is that of the lower bound.
"""

from __future__ import annotations

from tpcsweep.configuration.units import CORES, COUNT, DURATION, FRACTION, RATE, RTT, SIZE, Quantity
from tpcsweep.paths import plan

HOUR = 3600.0

# What a cell is measured with.
ORIGINS = Quantity(COUNT, at_least=1, at_most=1024, why="16 servers on each of 64 hosts")
QUOTA = Quantity(
    CORES, at_least=0.001, at_most=100_000, why="a millisecond in each second; more than 64 hosts have"
)
ROUND_TRIP = Quantity(
    RTT, at_least=0, at_most=plan.LONGEST_RTT, why="by a geostationary satellite it is 600 ms"
)
BANDWIDTH = Quantity(
    RATE,
    at_least=plan.SMALLEST_BANDWIDTH,
    at_most=10_000,
    why="below, a packet takes longer than most paths are; above, no interface comes near",
)
LOSS = Quantity(
    FRACTION,
    at_least=0,
    at_most=plan.LARGEST_LOSS,
    why="with more, a path cannot be told from one that is down",
)
QUEUE_LIMIT = Quantity(COUNT, at_least=1, at_most=plan.MOST_PACKETS, why="what netem's limit can say")
MTU = Quantity(
    SIZE, at_least=1280, at_most=plan.LARGEST_MTU, why="the least of IPv6; the most of a virtual link"
)
TCP_BUFFER = Quantity(SIZE, at_least=4096, at_most=2**31 - 1, why="a page; what net.ipv4.tcp_rmem can say")
TCP_STREAMS = Quantity(COUNT, at_least=1, at_most=100, why="XRootD's limit")
FILE_SIZE = Quantity(SIZE, at_least=1, at_most=2**44, why="the largest file of ext4")
STREAMS = Quantity(COUNT, at_least=1, at_most=10_000, why="each is a process beside the servers")

# How it is measured.
INTERVAL = Quantity(DURATION, at_least=0.001, at_most=HOUR, why="a look at all counters takes milliseconds")
TIME = Quantity(DURATION, at_least=0.01, at_most=720 * HOUR, why="a few samples; a month")
FILES = Quantity(COUNT, at_least=1, at_most=10**6, why="each is listed in the cell's file")
PRECISION = Quantity(FRACTION, at_least=1e-5, below=1, why="no machine repeats itself better")
CONFIDENCE = Quantity(FRACTION, at_least=0.5, at_most=0.9999, why="what some dozens of samples can tell")

# How much of it.
CELLS = Quantity(COUNT, at_least=1, at_most=10**6, why="each is a file, and takes seconds")
SEED = Quantity(COUNT, at_least=0, at_most=2**32 - 1, why="what generators of random numbers take")
SHARE = Quantity(FRACTION, at_least=0, at_most=1, why="none to all")
VALUES = 1000
PARALLEL = Quantity(COUNT, at_least=1, at_most=1000, why="each is a job on the machine that runs Snakemake")
"""Values of an axis, and entries of `exclude` and `include`: each is compared with each."""

# What a testbed has.
CPUS = Quantity(COUNT, at_least=1, at_most=8192, why="the most that Linux is built for")
EMULATED = Quantity(
    RATE, at_least=plan.SMALLEST_BANDWIDTH, at_most=plan.LARGEST, why="what emulators of paths are asked for"
)
MEMORY = Quantity(SIZE, at_least=2**20, at_most=2**60, why="a small file; what sizes of 64 bits can say")
CLIENT_CORES = Quantity(CORES, at_least=0.01, at_most=1024, why="what cgroups can give; more than a host has")
CLIENT_MEMORY = Quantity(SIZE, at_least=2**28, at_most=2**44, why="the client alone; more than a host has")
FIRST_PORT = Quantity(
    COUNT,
    at_least=1024,
    at_most=32_763,
    why="pods are not root; from 32768 on are the ports of connections that a node opens itself",
)
START_TIME = Quantity(
    DURATION,
    at_least=1,
    at_most=24 * HOUR,
    why="a pod takes seconds; who waits for longer looks for a mistake",
)
ORPHAN_TIME = Quantity(
    DURATION, at_least=10, at_most=24 * HOUR, why="a slow API; what blocks a cluster's nodes"
)
TIME_LIMIT = Quantity(
    DURATION,
    at_least=300,
    at_most=30 * 24 * HOUR,
    why="a deployment comes up and measures a cell; no cluster's limit",
)
DRAWS = Quantity(COUNT, at_least=20, at_most=10_000, why="an interval; minutes of computing")

# What is asked of fitted models.
TARGET = Quantity(RATE, at_least=plan.SMALLEST_BANDWIDTH, at_most=10_000, why="as of a path")
PROBABILITY = Quantity(
    FRACTION, at_least=0.01, at_most=0.99, why="nobody has seen the tails of a few hundred cells"
)
RATIO = Quantity(FRACTION, at_least=0.01, at_most=1, why="a hundredth of base; base itself")
