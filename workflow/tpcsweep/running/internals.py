# SPDX-License-Identifier: Apache-2.0
"""What Snakemake 9 has no public way for, in one place. Its next release may need a change here, and nowhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from snakemake.cli import get_argument_parser  # type: ignore[import-untyped]


class CommandLine(NamedTuple):
    """What a Snakemake was told."""

    targets: tuple[str, ...] = ()
    """The rules and files that were asked for; none for the default target. The process of a job names its rule."""
    config: Mapping[str, str] = MappingProxyType({})
    """What `--config` says; nothing in the process of a job, which is given all of the configuration."""
    reports: bool = False
    """Whether it makes a report."""
    of_job: bool = False
    """Whether it is the process of a job."""
    profiles: tuple[str, ...] = ()
    """What `--profile` names."""
    queued: bool = False
    """Whether jobs are put into Slurm's queue, or are of it."""


def command_line(argv: Sequence[str]) -> CommandLine:
    """Read a Snakemake's command line.

    While rules are read Snakemake tells them no targets yet (`workflow.dag_settings` is None), and which words of a
    command line are targets depends on all of its options. So its own parser is asked. Where Snakemake is no command
    (its API) nothing is known.
    """
    program = Path(argv[0])
    if "snakemake" not in (program.name, program.parent.name):
        return CommandLine()
    options, _ = get_argument_parser().parse_known_args(list(argv[1:]))
    profiles = [name for name in options.profile or () if name != "none"]
    executor = options.executor
    if profiles and not executor:  # which they may name
        executor = get_argument_parser(profiles).parse_known_args(list(argv[1:]))[0].executor
    jobs = [job.rulename for job in options.target_jobs]
    config = {} if jobs else dict(entry.partition("=")[::2] for entry in options.config or ())
    return CommandLine(
        (*options.targets, *jobs),
        config,
        options.report is not None,
        bool(jobs),
        tuple(profiles),
        (executor or "").startswith("slurm"),
    )


class Internals:
    """A workflow's attributes that no documentation names."""

    def __init__(self, workflow: Any, profiles: Sequence[str] = ()) -> None:
        """`workflow` is what rules know by that name; `profiles` are those of its command line."""
        self._workflow = workflow
        self._profiles = profiles
        # Not in profiles/default, as its resources would win over those of another profile.
        workflow.global_resources.setdefault("testbed", 1)

    @property
    def in_module(self) -> bool:
        """Whether another workflow has this one as a module; asked while its files are read."""
        return not self._workflow.modifier.is_main_snakefile()

    @property
    def renamed(self) -> bool:
        """Whether another workflow gives this one's rules other names; asked while its files are read."""
        return self._workflow.modifier.resolved_rulename_modifier is not None

    def keep_hooks(self, known: Mapping[str, Any]) -> None:
        """Let what is to be done at the start and at the end of a run be done as a module too, where it is left out.

        `known` are the names that the Snakefile knows, its hooks among them. Those that the other workflow has
        after its `use rule` take their place.
        """
        if self.in_module:
            for name in ("onstart", "onsuccess", "onerror"):
                setattr(self._workflow, f"_{name}", known[name].func)

    @property
    def in_conda(self) -> bool:
        """Whether jobs run in conda environments of their own."""
        return "conda" in map(str, self._workflow.deployment_settings.deployment_method)

    @property
    def not_deployed(self) -> list[str]:
        """Ways to deploy software that are asked for and that no rule has anything for: jobs run as without them."""
        return sorted({*map(str, self._workflow.deployment_settings.deployment_method)} - {"conda"})

    def run_in(self, environment: str) -> None:
        """Give the jobs of all rules one conda environment, which counts where they have one of their own at all."""
        for rule in self._workflow.rules:
            if not rule.norun and rule.conda_env is None:
                rule.conda_env = environment

    @property
    def snakefile(self) -> str:
        """The file that Snakemake was started with; that of another workflow, which has this one as a module."""
        return str(self._workflow.main_snakefile)

    def group(self, of: Callable[[str], str]) -> None:
        """Put the jobs of rules into groups, by their names, of which each is one job where jobs go into a queue.

        No group is ""; rules that stay with Snakemake have none.
        """
        for rule in self._workflow.rules:
            if not rule.norun and rule.name not in self._workflow._localrules:
                rule.group = of(rule.name) or None

    @property
    def run(self) -> str:
        """The name that the jobs of this run have in Slurm's queue; "" where they are in none. Known when it starts."""
        return str(getattr(self._workflow.scheduler._executor, "run_uuid", ""))

    def inner(self, _wildcards: object) -> list[str]:
        """Give params the beginning of a Snakemake's command line within a job: profiles, cores, testbeds as here."""
        workflow = self._workflow
        testbeds = workflow.global_resources["testbed"].value
        snakefile = self.snakefile
        quiet = ("--nolock", "--quiet", "rules", "host", "progress")
        width = ("--cores", str(workflow.cores), "--resources", f"testbed={testbeds}")
        profiles = [word for name in self._profiles for word in ("--profile", name)]
        return [sys.executable, "-m", "snakemake", "--snakefile", snakefile, *profiles, *quiet, *width]

    def force(self, files: Iterable[str]) -> None:
        """Make files anew, as if -R had named them, once it is known that they are wanted and stale.

        By itself Snakemake compares times, and what it remembers of its own runs.
        """
        self._workflow.dag.forcefiles.update(files)

    @property
    def rules(self) -> set[str]:
        """The names of all rules."""
        return {rule.name for rule in self._workflow.rules}

    @property
    def described(self) -> dict[str, str]:
        """The rules that people are to ask for, those with a docstring, of which they get the first line."""
        return {rule.name: rule.docstring.splitlines()[0] for rule in self._workflow.rules if rule.docstring}

    @property
    def files(self) -> list[str]:
        """The files that rules make, without those whose names have wildcards."""
        outputs = (file for rule in self._workflow.rules for file in rule.output)
        return [str(file) for file in outputs if not file.contains_wildcard()]

    def makes(self, target: str) -> bool:
        """Whether a file is there or a rule makes it."""
        file = os.path.normpath(target)
        return os.access(file, os.F_OK) or any(rule.is_producer(file) for rule in self._workflow.rules)

    def will_run(self, prefix: str) -> bool:
        """Whether a job is going to run of a rule whose name begins so. It is known when a run starts."""
        return any(job.rule.name.startswith(prefix) for job in self._workflow.dag.needrun_jobs())


def spare_pandas() -> None:
    """Keep Snakemake from loading pandas to see whether parameters are data frames: it takes 0.5 s and 70 MB."""
    sys.modules.setdefault("pandas", None)  # type: ignore[arg-type]
