# SPDX-License-Identifier: Apache-2.0
"""The two open questions of chep2023: what explanations predict, real experiments on each, and what tells them apart.

(1) About 1 Gbit/s at 120 ms, whatever the streams (chep2023.rtt120_cap). (2) No 1/RTT scaling of throughput from 10 to
60 ms at a fixed number of streams (chep2023.rtt_not_linear).
"""
