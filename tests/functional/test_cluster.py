# SPDX-License-Identifier: Apache-2.0
"""What runs take place on."""

import pathlib
import tempfile
import unittest
from unittest import mock

from iat_nova.experiments.compare import compare
from iat_nova.experiments.papers import runner
from iat_nova.experiments.runs import parallel, sources
from iat_nova.experiments.scenarios.reader import read_scenario
from tests.functional.test_compare import TEXT
from tests.unit.experiments.sim import in_process
from tests.unit.experiments.sim.test_figures import FIGURE

try:
    import distributed
except ImportError:
    distributed = None


def _twice(number):
    return 2 * number


class ExtraTest(unittest.TestCase):
    def test_without_the_extra(self):
        """It is said what to install."""
        with (
            in_process.without("distributed"),
            self.assertRaisesRegex(parallel.ParallelError, r"pip install 'iat-nova\[dask\]'"),
            parallel.executor(scheduler="tcp://127.0.0.1:1"),
        ):
            self.fail("there is nothing to run on")


@unittest.skipIf(distributed is None, "distributed (the extra iat-nova[dask]) is not installed")
class ClusterTest(unittest.TestCase):
    """A scheduler and one worker, threads of this process."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",
            protocol="tcp://",
            host="127.0.0.1",
        )
        cls.addClassCleanup(cls.cluster.close)
        cls.address = cls.cluster.scheduler_address

    def test_comparison(self):
        """What a cluster finds is what this machine's processes find."""
        scenario = read_scenario(TEXT.replace("length: 3s", "length: 1s"), "test", "test.yaml")
        with parallel.executor(scheduler=self.address) as there:
            found = compare.compare(scenario, ["baseline"], [1, 2], executor=there)
        with in_process.executor() as here:
            expected = compare.compare(scenario, ["baseline"], [1, 2], executor=here)
        self.assertEqual(expected, found)

    def test_figures(self):
        """A figure's points are measured on the cluster."""
        with tempfile.TemporaryDirectory() as folder:
            rows = runner.measure([FIGURE], 1, pathlib.Path(folder), scheduler=self.address)
        self.assertEqual([2.0, 17.0], [row["rate_mpps"] for row in rows["iat-3a"]])

    def test_another_version_there(self):
        """A worker with other sources is told from one with these, not believed."""
        with (
            parallel.executor(scheduler=self.address) as there,
            mock.patch.object(sources, "digest", side_effect=["mine", "theirs"]),
            self.assertLogs("distributed.worker", "ERROR"),
            self.assertRaisesRegex(parallel.ParallelError, "another version"),
        ):
            for _, future in parallel.completed(there, _twice, [1]):
                future.result()

    def test_nobody_there(self):
        """An address where no scheduler answers, or one without workers, is named."""
        with (
            mock.patch.object(parallel, "PATIENCE_S", 0.2),
            self.assertRaisesRegex(parallel.ParallelError, "no Dask scheduler answers at tcp://"),
            parallel.executor(scheduler="tcp://127.0.0.1:1"),
        ):
            self.fail("there is nothing to run on")
        empty = distributed.LocalCluster(
            n_workers=0,
            processes=False,
            dashboard_address="127.0.0.1:0",
            protocol="tcp://",
            host="127.0.0.1",
        )
        self.addCleanup(empty.close)
        with (
            mock.patch.object(parallel, "PATIENCE_S", 2),  # to be reached on a busy machine, too
            self.assertRaisesRegex(parallel.ParallelError, "has no worker"),
            parallel.executor(scheduler=empty.scheduler_address),
        ):
            self.fail("there is nothing to run on")
