# SPDX-License-Identifier: Apache-2.0
"""Nova's metadata as each release writes it, and as nobody should."""

import unittest
from xml.etree import ElementTree

from iat_nova.inventory import nova_metadata
from iat_nova.model import message
from tests import nova_shapes as shapes


def read(meta):
    """What is read of a guest with this metadata."""
    return nova_metadata.parse(ElementTree.fromstring(shapes.domain("a", run=1, meta=meta)))


def instance(*parts):
    """Metadata with these parts alone."""
    inner = "".join(parts)
    return f"<nova:instance xmlns:nova='{shapes.NOVA}'>{inner}</nova:instance>"


class MetadataTest(unittest.TestCase):
    def test_nova_32(self):
        """Name, flavor, owner, extra specs and image properties are read."""
        meta = shapes.metadata("web <1>", "iat.pc", {"iat:priority": "PC"}, {"hw_cpu_policy": "x"})
        nova = read(meta)
        self.assertEqual(("web <1>", "iat.pc"), (nova.name, nova.flavor))
        self.assertEqual((shapes.PROJECT, "p"), (nova.project, nova.project_name))
        self.assertEqual({"iat:priority": "PC"}, nova.extra_specs)
        self.assertEqual({"hw_cpu_policy": "x"}, nova.image_properties)
        self.assertEqual((), nova.warnings)

    def test_absent_image_properties(self):
        """Without extra specs (Nova below 32) they are unknown; beside them they are none."""
        for specs, properties in ((None, None), ({}, {})):
            nova = read(shapes.metadata("web", extra_specs=specs))
            self.assertEqual(properties, nova.image_properties)

    def test_absent_specs_are_unknown(self):
        """Without the element the specs are unknown; with an empty one there are none."""
        for specs in (None, {}):
            with self.subTest(specs):
                self.assertEqual(specs, read(shapes.metadata("web", extra_specs=specs)).extra_specs)

    def test_an_image_asks_for_nothing(self):
        """What a tenant sets on an image is no extra spec of the flavor."""
        meta = shapes.metadata("web", "m1", {}, {"iat:priority": "PC", "iat_priority": "PC"})
        self.assertEqual({}, read(meta).extra_specs)

    def test_older_namespace(self):
        """The version in the namespace does not matter."""
        meta = shapes.metadata("web").replace(shapes.NOVA, shapes.NOVA[:-1] + "0")
        self.assertEqual("web", read(meta).name)

    def test_foreign_metadata(self):
        """Metadata of another program, or another element of Nova's, is no instance of Nova's."""
        foreign = "<x:instance xmlns:x='http://example.org/'/>"
        other = f"<nova:other xmlns:nova='{shapes.NOVA}'/>"
        for inner in ("", foreign, other):
            with self.subTest(inner):
                self.assertIsNone(read(f"<metadata>{inner}</metadata>"))
        name = "<nova:name>web</nova:name>"
        both = f"<metadata>{foreign}{other}{instance(name)}</metadata>"
        self.assertEqual("web", read(both).name)

    def test_first_instance(self):
        """Of two instances the first counts."""
        names = [instance(f"<nova:name>{name}</nova:name>") for name in ("web", "db", "dev")]
        self.assertEqual("web", read(f"<metadata>{''.join(names)}</metadata>").name)

    def test_malformed(self):
        """Metadata without its parts leaves unknowns and a warning for each."""
        specs = (
            "<nova:flavor><nova:extraSpecs>"
            "<nova:extraSpec>lost</nova:extraSpec><nova:extraSpec name='a'>1</nova:extraSpec>"
            "<nova:extraSpec name='a'>2</nova:extraSpec><nova:extraSpec name='b'/>"
            "</nova:extraSpecs></nova:flavor>"
        )
        found = read(f"<metadata>{instance(specs)}</metadata>")
        self.assertEqual({"a": "1", "b": ""}, found.extra_specs)
        self.assertEqual((None, None, None), (found.name, found.flavor, found.project))
        self.assertIsNone(found.project_name)
        self.assertEqual(
            [
                message("nova-metadata-nameless", part="extra spec"),
                message("nova-metadata-twice", part="extra spec", name="a"),
                message("nova-metadata-without", part="flavor"),
                message("nova-metadata-without", part="owner's project"),
            ],
            sorted(found.warnings, key=str),
        )

    def test_empty_texts_are_unknown(self):
        """An empty name of a guest or of a project is no name."""
        parts = ("<nova:name/>", "<nova:owner><nova:project uuid='p1'/></nova:owner>")
        found = read(f"<metadata>{instance(*parts)}</metadata>")
        self.assertEqual((None, "p1", None), (found.name, found.project, found.project_name))
