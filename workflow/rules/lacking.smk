# The targets that need keys of the configuration that are not there: each says which.
for target, key in {
    "import": SETTINGS.source,
    "compare": SETTINGS.comparison,
    "plan": SETTINGS.run.target,
}.items():
    if key is None:

        rule:
            name:
                target
            log:
                f"{RESULTS}/logs/{target}.log",
            localrule: True
            conda:
                "../../envs/tpcsweep.yaml"
            script:
                "../scripts/lacking.py"
