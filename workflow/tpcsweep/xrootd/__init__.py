# SPDX-License-Identifier: Apache-2.0
"""XRootD: releases, configuration of servers, credentials, and the records of its monitoring."""
