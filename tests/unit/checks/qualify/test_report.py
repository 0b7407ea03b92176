# SPDX-License-Identifier: Apache-2.0
"""What iat-nova qualify writes: a record by its schema, a page that needs nothing else."""

import json
import pathlib
import unittest
from html.parser import HTMLParser

import jsonschema
import yaml

from iat_nova.checks.qualify import html, record
from iat_nova.checks.qualify.run import TESTS, none
from iat_nova.cmd.qualify import summary
from iat_nova.hardware.api import HardwareError
from tests.qualify_sample import BAD, GOOD, sample
from tests.said import reworded

SCHEMA = yaml.safe_load((pathlib.Path(record.__file__).parent / "schema.yaml").read_text())
SHOWN = pathlib.Path(__file__).parents[4] / "doc/source/operator/output"


class Tags(HTMLParser):
    """Collects tags and what they refer to."""

    def __init__(self):
        super().__init__()
        self.tags, self.links = set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]


TEXTS = ("says", "means", "remedy", "why", "chart")  # a chart's ticks are texts, too


def without_texts(data):
    """Return a record without its texts."""
    return {
        name: [{key: value for key, value in one.items() if key not in TEXTS} for one in value]
        if name in ("tests", "interfaces")
        else value
        for name, value in data.items()
    }


class Report(unittest.TestCase):
    """Record, page and summary."""

    def records(self):
        refused = none(TESTS.values(), HardwareError("resctrl is not mounted", "mount it"))
        nothing = record.as_data(
            refused, version="1", at_s=0.0, kernel="6.12", choices=(), domain=None,
            cpu=dict.fromkeys(sample(GOOD)["cpu"], ""),
        )  # fmt: skip
        return {"good": sample(GOOD), "bad": sample(BAD, missing=("bandwidth",)), "none": nothing}

    def test_schema(self):
        """Each record holds, also after JSON, and one with a name of a guest would not."""
        for name, data in self.records().items():
            with self.subTest(name):
                jsonschema.validate(json.loads(json.dumps(data)), SCHEMA)
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate({**sample(GOOD), "host": "compute1"}, SCHEMA)

    def test_passed(self):
        """Only where every test passed."""
        found = {name: data["passed"] for name, data in self.records().items()}
        self.assertEqual({"good": True, "bad": False, "none": False}, found)

    def test_only_texts_change(self):
        """Records without their texts are equal with nonsense for each sentence."""
        before = self.records()
        with reworded() as nonsense:
            after = self.records()
            for name, data in after.items():
                with self.subTest(name):
                    self.assertEqual(without_texts(before[name]), without_texts(data))
                    said = {one[text] for one in data["tests"] for text in ("says", "means")}
                    self.assertEqual(set(), said - set(nonsense.values()))
                    html.write(data)
                    summary(data, 100)

    def test_every_code_has_its_sentence(self):
        """No statement is shown as its code and its values for want of a sentence."""
        for name, data in self.records().items():
            for one in data["tests"]:
                with self.subTest(name, test=one["name"]):
                    for text, prefix in (("says", ""), ("means", "means_"), ("remedy", "remedy_")):
                        self.assertNotIn(f"{one[f'{prefix}code']}(", one[text] or "")

    def test_page(self):
        """It tells every verdict and draws what was measured, without script or network."""
        for name, data in self.records().items():
            page, seen = html.write(data), Tags()
            seen.feed(page)
            with self.subTest(name):
                self.assertFalse({"script", "link", "img"} & seen.tags)
                self.assertEqual([], seen.links)
                drawn = sum(1 for one in data["tests"] if one["chart"])
                self.assertEqual(drawn, page.count('<div class="chart"><svg'))
                for one in data["tests"]:
                    self.assertIn(TESTS[one["name"]].question.replace("'", "&#39;"), page)
                    self.assertIn(f'<span class="verdict {one["verdict"]}">', page)

    def test_page_again(self):
        """The page is the same when it is made of the file."""
        data = sample(GOOD)
        self.assertEqual(html.write(data), html.write(json.loads(json.dumps(data))))

    def test_what_the_pages_show(self):
        """The summaries in the documentation are those of the sample."""
        for name, data in (("good", sample(GOOD)), ("bad", sample(BAD, missing=("bandwidth",)))):
            with self.subTest(name):
                shown = (SHOWN / f"qualify-{name}.txt").read_text(encoding="utf-8")
                self.assertEqual(f"{summary(data, 100)}\n", shown)
