# SPDX-License-Identifier: Apache-2.0
"""Decide each iteration of a history once more with another THRESHOLD_STABLE, and compare.

python replay.py HISTORY THRESHOLD      for instance: python replay.py history.sqlite 0.10
"""

import dataclasses
import sys

from iat_nova.store.reader import HistoryReader
from iat_nova.store.replay import Replay

path, threshold = sys.argv[1], float(sys.argv[2])
with HistoryReader(path) as reader:
    replay = Replay(reader)
    for domain in reader.domains():
        was = now = differ = count = 0
        for recorded in reader.between(0, float("inf"), domain):
            iteration = recorded.iteration
            settings = reader.settings(recorded)
            parameters = dataclasses.replace(settings.parameters, threshold_stable=threshold)
            changed = dataclasses.replace(settings, parameters=parameters)
            decision = replay.decide(recorded, changed)
            count += 1
            was += bool(iteration.decision.moved)
            now += bool(decision.moved)
            differ += decision.layout != iteration.decision.layout
        print(
            f"domain {domain}: {count} iterations; masks moved in {was}, with {threshold:.0%} they"
            f" would in {now}; another layout in {differ}"
        )
