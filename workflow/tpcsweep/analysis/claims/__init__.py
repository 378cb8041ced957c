# SPDX-License-Identifier: Apache-2.0
"""Published claims as predicates on a dataset, with verdicts from "holds" to "not testable".

`docs/published.md` explains the reading of each claim. A claim is an entry in the YAML file of its publication in this
folder, and its name is that of the file and the entry: `publication.claim`. An entry contains:

- source, published: place of the statement in the publication, and its text
- tested: the tested statement; {region} or the names of `regions` are replaced by the regions
- needs: for each axis or fixed parameter: the values to write into a sweep, then requirements. A requirement is a
  number of values, a range with at least one value ([low, high] or [low, high, count]), a word, or a list of words of
  which the dataset must have one
- cells: condition on the cells of the claim (`data.conditions`; `claim_cells.CellTable` lists the columns)
- region, regions: effects for which the claim is true: a word of `effects.REGIONS`, [low, high], or a function of
  `_REGION_OF` with its figure
- test: function that `claim.for_claims` registers, alone or with its settings
- beyond, advice: instead of a test: why no dataset can show it, and which measurement would
- elsewhere: where it is judged, or why it is not, if no published figure carries it
- rows: evidence that does not depend on a dataset: rows, or a function that `claim.for_claims` registers
"""
