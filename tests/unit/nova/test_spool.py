# SPDX-License-Identifier: Apache-2.0
"""What the notification driver keeps, and that it stays small."""

import importlib
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from oslo_config import cfg

from iat_nova import conf
from iat_nova.inventory.spool import Spool
from iat_nova.nova.spool import MOST_BYTES, News, SpoolFolder, news

ONE = "6f9619ff-8b86-4011-b42d-00cf4fc964ff"


def message(event="instance.create.end", *, publisher="nova-compute:here", **instance):
    values = {
        "uuid": ONE,
        "host": "here",
        "state": "active",
        "flavor": {"nova_object.data": {"extra_specs": {"iat:priority": "PC"}}},
        **instance,
    }
    payload = {"nova_object.name": "InstanceActionPayload", "nova_object.data": values}
    return {"publisher_id": publisher, "event_type": event, "payload": payload}


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8))
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["nova_object.data", "uuid", "flavor", "extra_specs", "state", "host"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


class NewsTest(unittest.TestCase):
    def test_who_may_speak(self):
        """Only nova-compute knows what runs here; a configuration shared with nova-api is safe."""
        self.assertEqual(News(ONE, {"iat:priority": "PC"}), news(message()))
        self.assertIsNone(news(message(publisher="nova-api:here")))
        self.assertIsNone(news(message(event="compute.instance.create.end")))

    def test_unknown_extra_specs_are_not_none_at_all(self):
        """A payload without them leaves what is known; an empty mapping says there are none."""
        flavor = {"nova_object.data": {"extra_specs": None}}
        self.assertIsNone(news(message(flavor=flavor)))
        flavor = {"nova_object.data": {"extra_specs": {}}}
        self.assertEqual(News(ONE, {}), news(message(flavor=flavor)))

    def test_spelling_of_the_uuid(self):
        """The file is named as libvirt spells the UUID; nothing else becomes a file's name."""
        self.assertEqual(ONE, news(message(uuid=ONE.upper())).uuid)
        for uuid in ("../../etc/shadow", "", None, 7, ONE + "/x"):
            self.assertIsNone(news(message(uuid=uuid)), uuid)

    def test_departures(self):
        """A guest that is deleted, shelved away, on another host or not built is not here."""
        for changes in (
            {"state": "deleted", "host": None},
            {"state": "shelved_offloaded", "host": None},
            {"host": "there"},
            {"event": "instance.live_migration_post.end"},
            {"event": "instance.create.error", "state": "building"},
            {"event": "instance.exists", "state": "resized", "task_state": "resize_reverting"},
        ):
            self.assertEqual(News(ONE, None), news(message(**changes)), changes)
        self.assertIsNotNone(news(message(state="soft-delete")).extra_specs)
        self.assertIsNotNone(news(message("instance.create.start", host=None)).extra_specs)

    def test_arrivals(self):
        """A guest that comes here is kept while Nova's record still names the host it left."""
        for event in (
            "instance.live_migration_pre.start",
            "instance.live_migration_post_dest.end",
            "instance.rebuild.start",  # evacuated
            "instance.rebuild.end",
        ):
            self.assertIsNotNone(news(message(event, host="there")).extra_specs, event)
        # The evacuation failed.
        failed = message("instance.rebuild.error", host="there")
        self.assertEqual(News(ONE, None), news(failed))

    @settings(derandomize=True, max_examples=200)
    @given(ANYTHING, ANYTHING)
    def test_whatever_comes(self, payload, flavor):
        """No message raises."""
        for one in (payload, message(flavor=flavor), {**message(), "payload": payload}):
            found = news(one)
            self.assertTrue(found is None or found.uuid == ONE or len(found.uuid) == 36)


class FolderTest(unittest.TestCase):
    def setUp(self):
        self.path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "spool"

    def test_the_agent_reads_it(self):
        """Writer and reader agree on name and form; any user may read."""
        self.assertTrue(SpoolFolder(self.path).keep(News(ONE, {"iat:io": "true"})))
        self.assertEqual({"iat:io": "true"}, Spool(self.path).extra_specs_of(ONE))
        self.assertEqual(0o644, (self.path / f"{ONE}.json").stat().st_mode & 0o777)

    def test_too_large_is_not_kept(self):
        """Neither the giant nor the record before it stays; what is kept the reader takes."""
        folder = SpoolFolder(self.path)
        specs = {f"a:{number}": "v" * 255 for number in range(128)}
        self.assertTrue(folder.keep(News(ONE, specs)))
        self.assertEqual(specs, Spool(self.path).extra_specs_of(ONE))
        self.assertFalse(folder.keep(News(ONE, {"a:b": "v" * MOST_BYTES})))
        self.assertEqual([], os.listdir(self.path))

    def test_a_link_in_the_folders_place(self):
        """The account above the folder could lead Nova's writes and removals elsewhere."""
        elsewhere = self.path.parent / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / f"{ONE}.json").touch()
        self.path.symlink_to(elsewhere)
        folder = SpoolFolder(self.path, most_files=0)
        for action in (
            folder.clean_up,
            lambda: folder.keep(News(ONE, {"iat:io": "true"})),
            lambda: folder.keep(News(ONE, None)),
        ):
            with self.assertRaises(OSError):
                action()
        self.assertEqual(0, (elsewhere / f"{ONE}.json").stat().st_size)

    @unittest.skipIf(os.geteuid(), "only root may be other users")
    def test_a_folder_of_another_account(self):
        """Nova's user writes into a folder of its own, or of root's, alone."""
        self.path.mkdir(mode=0o777)
        self.path.chmod(0o777)
        self.path.parent.chmod(0o755)
        os.chown(self.path, 61002, 61002)
        keep = lambda: SpoolFolder(self.path).keep(News(ONE, {}))  # noqa: E731
        self.assertFalse(self.as_user(61001, keep))
        self.assertTrue(self.as_user(61002, keep))

    def test_bounded(self):
        """Beyond the most there may be the oldest go, the newest stay."""
        folder = SpoolFolder(self.path, most_files=3)
        names = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(6)]
        for age, name in enumerate(reversed(names)):
            folder.keep(News(name, {}))
            os.utime(self.path / f"{name}.json", (1e9 - age, 1e9 - age))
        (self.path / "README").touch()  # not ours
        folder.clean_up()
        self.assertEqual({"README", *(f"{name}.json" for name in names[3:])},
                         set(os.listdir(self.path)))  # fmt: skip

    def test_many_writes_stay_bounded(self):
        """The folder is looked at now and then by itself."""
        folder = SpoolFolder(self.path, most_files=10)
        for number in range(300):
            folder.keep(News(f"00000000-0000-4000-8000-{number:012d}", {}))
        self.assertLessEqual(len(os.listdir(self.path)), 10 + 64)

    def test_what_a_dead_process_left(self):
        """An unfinished file of long ago goes, one of now may still be written."""
        self.path.mkdir()
        (self.path / ".iat-old").touch()
        os.utime(self.path / ".iat-old", (time.time() - 7200,) * 2)
        (self.path / ".iat-new").touch()
        SpoolFolder(self.path).clean_up()
        self.assertEqual([".iat-new"], os.listdir(self.path))

    def test_a_failed_write_leaves_no_record(self):
        """What the guest was before is not true any more: better none than a wrong one."""
        folder = SpoolFolder(self.path)
        folder.keep(News(ONE, {"iat:priority": "BE"}))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGXFSZ, handler)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            with self.assertRaises(OSError):
                folder.keep(News(ONE, {"iat:priority": "PC"}))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        self.assertEqual([], os.listdir(self.path))

    @unittest.skipIf(os.geteuid(), "only root may be other users")
    def test_the_documented_folder(self):
        """Made as the page says, Nova's user can write it, the agent's read it, no other."""
        page = (
            pathlib.Path(conf.__file__).parents[2] / "doc/source/operator/openstack.rst"
        ).read_text()
        command = re.search(r"# (install -d .* (/var/lib/iat-nova-\S+))$", page, re.M)
        self.assertIn(f"spool_dir = {command[2]}\n", page)
        self.path.parent.chmod(0o755)
        words = command[1].replace(command[2], str(self.path)).split()
        nova, agent, other = 61001, 61002, 61003
        users = {"nova": str(nova), "iat-nova": str(agent)}
        subprocess.run([users.get(word, word) for word in words], check=True)

        def keep():
            SpoolFolder(self.path).keep(News(ONE, {"iat:io": "true"}))

        def read():
            if Spool(self.path).extra_specs_of(ONE) != {"iat:io": "true"}:
                raise AssertionError

        for user, action, worked in (
            (other, keep, False), (agent, keep, False), (nova, keep, True),
            (agent, read, True), (other, read, False),
        ):  # fmt: skip
            with self.subTest(user=user, action=action.__name__):
                self.assertEqual(worked, self.as_user(user, action))

    def as_user(self, user, action):
        """Tell whether it works for a user and its group of the same number."""
        child = os.fork()
        if child == 0:
            failed = 1
            try:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
                action()
                failed = 0
            finally:
                os._exit(failed)
        return os.waitpid(child, 0)[1] == 0

    def test_a_failed_write_leaves_no_unfinished_file(self):
        """A write that cannot take the record's place leaves nothing beside it."""
        folder = SpoolFolder(self.path)
        folder.keep(News(ONE, {"iat:io": "true"}))
        target = self.path / f"{ONE}.json"
        target.unlink()
        target.mkdir()  # a file cannot take its place
        with self.assertRaises(OSError):
            folder.keep(News(ONE, {}))
        self.assertEqual([target.name], os.listdir(self.path))

    def test_never_half_to_a_reader(self):
        """A reader beside four writers sees whole records only."""
        folder = SpoolFolder(self.path)
        folder.keep(News(ONE, {"n": "0"}))
        done = threading.Event()

        def write(number):
            for length in range(200):
                folder.keep(News(ONE, {"n": str(number) * (1 + length * 20)}))

        writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]

        def wait():
            for writer in writers:
                writer.join()
            done.set()

        for thread in (*writers, waiter := threading.Thread(target=wait)):
            thread.start()
        reads = 0
        while not done.is_set() or not reads:
            value = Spool(self.path).extra_specs_of(ONE)["n"]
            self.assertEqual(value, value[0] * len(value))
            reads += 1
        waiter.join()
        self.assertEqual([f"{ONE}.json"], os.listdir(self.path))


class OptionsTest(unittest.TestCase):
    def test_defaults_are_the_agents(self):
        """The driver cannot import the agent's options, so its text must spell the same ones."""
        text = (pathlib.Path(conf.__file__).parents[1] / "nova/notifier.py").read_text()
        options = {option.name: option for option in conf.IAT_OPTS}
        self.assertIn(f'StrOpt("state_dir", default="{options["state_dir"].default}")', text)
        self.assertIsNone(options["spool_dir"].default)
        settings_ = conf.load()
        self.assertEqual(settings_.state_dir / "spool", settings_.spool_dir)

    def test_the_driver_writes_where_the_agent_reads(self):
        """With the same file, in which options may have no value."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        names = ("oslo_messaging", "oslo_messaging.notify", "iat_nova.nova.notifier")
        absent = dict.fromkeys(names[:2], mock.MagicMock())  # Nova's process has it
        absent["oslo_messaging.notify"].notifier.Driver = object
        with mock.patch.dict(sys.modules, absent):
            notifier = importlib.import_module(names[2])
        for text in ("", "state_dir =", "spool_dir =", f"state_dir = {folder}", "spool_dir = /a"):
            path = folder / "nova.conf"
            path.write_text(f"[iat]\n{text}\n")
            novas = cfg.ConfigOpts()
            novas([], default_config_files=[str(path)])
            with self.subTest(text), mock.patch.dict(os.environ):
                os.environ.pop(conf.STATE_DIR_VARIABLE, None)
                self.assertEqual(str(conf.load([path]).spool_dir), notifier.spool_dir(novas))
