# SPDX-License-Identifier: Apache-2.0
"""A sweep as an RO-Crate: dataset, page, figures, configuration and software, described for archives.

`docs/archiving.md` is for those who use it.
"""
