# SPDX-License-Identifier: Apache-2.0
"""Authors and licence of measurements, from a file in the Citation File Format (CITATION.cff)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tpcsweep.common.files import is_file
from tpcsweep.sweeps.parameters import Text
from tpcsweep.sweeps.problems import fault, read_yaml, validated

FILE = Path("config/CITATION.cff")
"""The citation of datasets that this configuration makes; CITATION.cff in the root cites the software."""


class _Part(BaseModel):
    """A part of the Citation File Format; keys that tpcsweep does not use are ignored."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=lambda name: name.replace("_", "-")
    )


class Author(_Part):
    """A person, or an organization with a single name."""

    name: Text | None = None
    given_names: Text | None = None
    name_particle: Text | None = None
    family_names: Text | None = None
    affiliation: Text | None = None
    email: Text | None = None
    orcid: Text | None = None
    website: Text | None = None

    @model_validator(mode="after")
    def _has_a_name(self) -> Author:
        if not self.called:
            raise fault("a name, or given-names and family-names", "an author without a name")
        return self

    @property
    def person(self) -> bool:
        return self.name is None

    @property
    def called(self) -> str:
        parts = (self.given_names, self.name_particle, self.family_names)
        return self.name or " ".join(part for part in parts if part)


class Citation(_Part):
    title: Text
    authors: Annotated[tuple[Author, ...], Field(min_length=1)]
    license: Annotated[Text, Field(pattern="^[A-Za-z0-9.+-]+$")]
    """The SPDX identifier, such as CC-BY-4.0."""
    doi: Text | None = None
    keywords: tuple[Text, ...] = ()

    @property
    def attributes(self) -> dict[str, str]:
        """Dataset attributes, named as in ACDD 1.3."""
        columns: dict[str, list[str | None]] = {
            "creator_name": [author.called for author in self.authors],
            "creator_type": ["person" if author.person else "institution" for author in self.authors],
            "creator_email": [author.email for author in self.authors],
            "creator_url": [author.orcid or author.website for author in self.authors],
        }
        # Lists have one entry per author, empty if unknown; lists without any known entry are omitted.
        attributes = {name: ", ".join(value or "" for value in values) for name, values in columns.items()}
        institutions = dict.fromkeys(author.affiliation for author in self.authors if author.affiliation)
        attributes |= {"institution": ", ".join(institutions), "license": self.license}
        return {name: text for name, text in attributes.items() if text.strip(", ")}


def read_citation(path: Path, shown: str) -> Citation:
    """Read a citation from a file that errors call `shown`. Raise ConfigurationError if it is none."""
    return validated(Citation, read_yaml(path, shown), shown)


def read_in(root: Path) -> Citation | None:
    """Read the citation of datasets, if there is one below a folder."""
    return read_citation(root / FILE, str(FILE)) if is_file(root / FILE) else None
