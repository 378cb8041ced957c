# SPDX-License-Identifier: Apache-2.0
"""XRootD: releases, configuration of servers, credentials, and records of its monitoring."""
