# SPDX-License-Identifier: Apache-2.0
"""Write the JSON schemas of the configuration, for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from tpcsweep.data.importing.import_settings import Import
from tpcsweep.sweeps.sweep import Sweep
from tpcsweep.testbeds.loading import Testbed, WorkflowSettings

FOLDER = Path(__file__).parents[1] / "workflow" / "schemas"


def schemas() -> dict[str, str]:
    """The text of each schema by its file name."""
    testbed = Annotated[Testbed, Field(discriminator="kind")]
    models: dict[str, Any] = {
        "config": WorkflowSettings,
        "sweep": Sweep,
        "testbed": testbed,
        "import": Import,
    }
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    contents = {name: draft | TypeAdapter(model).json_schema() for name, model in models.items()}
    return {
        f"{name}.schema.json": json.dumps(content, indent=2, ensure_ascii=False).replace(r"\n", " ") + "\n"
        for name, content in contents.items()
    }


if __name__ == "__main__":
    for name, text in schemas().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
