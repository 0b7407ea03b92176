# SPDX-License-Identifier: Apache-2.0
"""A contract for import-linter: some modules import nothing but what is listed."""

from __future__ import annotations

import grimp
from importlinter import Contract, ContractCheck, fields, output


class OnlyContract(Contract):
    """`modules`, and what is below them, import each other and `allowed`, nothing else.

    What is allowed includes what is below it; a module of the standard library or of another
    project counts by its first name. `exceptions` are modules to which this does not apply. What
    has no exceptions and allows nothing that does I/O, does none.
    """

    type_name = "only"

    modules = fields.ListField(subfield=fields.ModuleField())
    allowed = fields.ListField(subfield=fields.StringField())
    exceptions = fields.ListField(subfield=fields.ModuleField(), required=False, default=[])

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        """Look at each import of each module."""
        names = [module.name for module in self.modules]
        exceptions = {module.name for module in self.exceptions}
        held = {below for name in names for below in (name, *graph.find_descendants(name))}
        wrong = [
            (importer, imported)
            for importer in sorted(held - exceptions)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if not any(_within(imported, one) for one in (*names, *self.allowed))
        ]
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Name each import that is not allowed."""
        for importer, imported in check.metadata["wrong"]:
            output.print_error(f"- {importer} -> {imported}", bold=False)
        output.new_line()


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
