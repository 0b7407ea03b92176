# SPDX-License-Identifier: Apache-2.0
"""Run under Rally's Python: load plug-ins and task as `rally task start` does; then run them.

Arguments: the folder rally-jobs, and a JSON list of questions. A JSON list of answers on standard
output. Nova alone is stood in for.
"""

import json
import pathlib
import sys
import types

import yaml
from rally import api, exceptions, plugins
from rally.task import engine, scenario, sla, task_cfg


class Task:
    """What the engine keeps in its database."""

    def __init__(self):
        self.failed = None

    def __getitem__(self, key):
        return "a-task"

    def update_status(self, status):
        pass

    def set_failed(self, kind, text, trace):
        self.failed = text


def validate(text):
    """Return the complaint of Rally's own engine about a task, None when it has none."""
    task = Task()
    try:
        engine.TaskEngine(task_cfg.TaskConfig(yaml.safe_load(text)), task, None).validate(
            only_syntax=True
        )
    except exceptions.RallyException as error:
        return str(error)
    return task.failed


def run(name, arguments, ids=()):
    """Run a scenario with servers that exist in its agent's answers alone."""
    kind = scenario.Scenario.get(name)
    booted = []

    class Standing(kind):
        def _boot_server(self, image, flavor, **kwargs):
            booted.append(flavor)
            number = len(booted)
            ident = ids[number - 1] if ids else f"uuid-{number}"
            return types.SimpleNamespace(id=ident, name=f"server-{number}")

        def _delete_server(self, server):
            booted.append(f"deleted {server.id}")

        def admin_clients(self, service):
            return types.SimpleNamespace(
                servers=types.SimpleNamespace(
                    get=lambda uuid: types.SimpleNamespace(
                        **{"OS-EXT-SRV-ATTR:hypervisor_hostname": "compute-7"}
                    )
                )
            )

    one = Standing({"task": {"uuid": "t"}, "iteration": 1, "owner_id": "o"})
    error = None
    try:
        one.run(**arguments)
    except (exceptions.RallyException, AssertionError) as caught:
        error = str(caught)
    return {
        "booted": booted,
        "error": error,
        "actions": one.atomic_actions(),
        "output": one._output,
    }


def judge(limits, *iterations):
    """Return what the SLA says of iterations of actions."""
    kind = sla.SLA.get("iat_nova_max_duration_per_atomic")
    parts = []
    for actions in iterations:
        part = kind(limits)
        part.add_iteration({"error": [], "atomic_actions": actions})
        parts.append(part)
    parts = parts or [kind(limits)]
    for other in parts[1:]:
        parts[0].merge(other)
    return {"success": parts[0].result()["success"], "detail": parts[0].result()["detail"]}


def main():
    jobs, questions = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
    plugins.load()
    rally = api.API(config_args=[], plugin_paths=[str(jobs / "plugins")], skip_db_check=True)
    template = (jobs / "task-iat-nova.yaml").read_text()

    def task(args, replace=()):
        text = rally.task.render_template(template, str(jobs), **args)
        for old, new in replace:
            assert old in text, old
            text = text.replace(old, new)
        return {"error": validate(text), "text": text}

    verbs = {"validate": task, "run": run, "judge": judge}
    json.dump([verbs[what](*arguments) for what, *arguments in questions], sys.stdout)


main()
