# SPDX-License-Identifier: Apache-2.0

# Targets that make no file. Of those that need a key of the configuration that is not there each says which.
for target, is_wanted in {
    "reap": MEASURES,
    "grid": MEASURES,
    "import": SETTINGS.source is None,
    "compare": SETTINGS.comparison is None,
    "plan": SETTINGS.run.target is None,
}.items():
    if is_wanted:

        rule:
            name:
                target
            log:
                f"{RESULTS}/logs/{target}.log",
            localrule: True
            script:
                "../scripts/without_files.py"
