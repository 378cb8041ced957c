# SPDX-License-Identifier: Apache-2.0
"""TCP on long fat paths as terena2005 published it: by formula, by ns-3, and on the kernel that is there.

docs/tcp-dynamics.md says how and why.
"""
