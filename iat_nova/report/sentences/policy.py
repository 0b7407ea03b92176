# SPDX-License-Identifier: Apache-2.0
"""The sentences of policies: what is wrong with a file, where, and what is allowed."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    # where
    "problems": "{problems:lines}",
    "of-source": "{source}: {problem:also}",
    "in-line": "line {line}: {problem:also}",
    "at-path": "{path}: {problem:also}",
    "in-rendered-line": "{problem:also} (line {line} after Jinja2)",
    # the file
    "file-unreadable": "cannot be read: {error}",
    "host-facts-unreadable": "this host's facts cannot be read: {error:also}",
    "facts-not-yaml": "{path} cannot be read as YAML: {error:also}",
    "facts-of-no-host": "{path} holds no facts of a host: `iat-nova policy facts` writes such a "
    "file",
    # the template
    "rendering-too-slow": "template: rendering took more than {most_s:g} s",
    "rendering-too-dear": "template: rendering took more than {most_s} s of CPU time",
    "rendering-too-large": "template: rendering takes more than {most_mib} MiB",
    "rendering-failed": "template: cannot be rendered: {error}",
    "rendering-ended": "template: rendering ended with status {status}: {said}",
    "rendered-too-long": "template: the rendered policy is longer than {most} characters",
    "template-error": "template: {error}",
    "template-operand": "template: {operator} takes numbers up to {most:g} here",
    "template-undefined": "template: {error}; the host's facts are {facts:list}",
    "template-misspelt": "template: {error}; did you mean {near}? the host's facts are "
    "{facts:list}",
    "template-unknown-fact": "template: {error}; unknown on this host, hence none: {facts:list}",
    # YAML
    "policy-empty": "the file is empty: expected at least {{}}",
    "not-yaml": "not YAML: {error}",
    "character-found": "invalid character {character}: expected characters that YAML allows",
    "tab-found": "invalid tab: expected spaces as indentation",
    "tag-found": "invalid tag {tag}: expected YAML without tags",
    "too-many-values": "more than {most} values",
    "too-deep": "nested too deeply",
    "half-surrogate": "invalid text: expected no half of a surrogate pair",
    "half-surrogate-key": "invalid key: expected no half of a surrogate pair",
    "alias-within-itself": "an alias stands within the value that it names",
    "key-not-text": "a key must be text",
    "key-twice": "key given twice",
    "key-again": "key given twice, first in line {line}",
    # the schema
    "key-unknown": "unknown key: expected {known:or}",
    "key-misspelt": "unknown key; did you mean {near}?",
    "key-missing": "the key {key} is missing",
    "nothing-in-it": "invalid empty value: expected at least one entry",
    "value-twice": "invalid list: expected each value once",
    "not-allowed": "invalid value {found:also}: expected {allowed:also}",
    "misspelt": "{problem:also}; did you mean {near}?",
    "wrong-unit": "invalid value {found:also}: {problem:also}",
    "wrong-unit-or-count": "invalid value {found:also}: {problem:also}, or a count of ways",
    "no-quantity": "expected {allowed:also}",
    "unit-unknown": "unknown unit {unit!r}, expected {allowed:also}",
    "unit-missing": "the unit is missing, expected {allowed:also}",
    # what is found or allowed
    "nothing": "null",
    "a-mapping": "a mapping",
    "a-list": "a list",
    "a-text": "text",
    "a-whole-number": "a whole number",
    "a-number": "a number",
    "true-or-false": "true or false",
    "either": "{kinds:or}",
    "one-of": "{words:or}",
    "or-a-list": "{one:also}, or a list of such values",
    "number-from-to": "{kind:also} from {least} to {most}",
    "of-the-form": "{kind:also} of the form {form}",
    "ways-or-size": "a whole number from 1 to {most}, or {size:also}",
    "quantity-from-to": "{quantity:also}, from {least} to {most}",
    "a-fraction": "a fraction such as 3% or 0.03",
    "a-rate": "a rate such as 100k/s, 1M/s or 1000 (a second)",
    "a-duration": "a duration such as 500ms, 10s, 2min or 1.5 (seconds)",
    "a-size": "a size such as 512KiB, 1MiB or 2MB",
    # what no schema can check
    "domain-not-a-number": "invalid key {found!r}: expected the number of a cache domain",
    "io-off-above-io-on": "invalid value {found_per_s:g}/s: expected up to io_on, which is "
    "{io_on_per_s:g}/s",
    "number-above": "invalid value {found}: expected up to {key}, which is {most}",
    "number-above-llc": "invalid value {found}: expected up to {allowed:also}",
    "backoff-above": "invalid value {found_s:g} s: expected up to backoff_max, which is "
    "{most_s:g} s",
    "usable": "{ways}, the ways of this host's LLC",
    "usable-less-reserved": "{ways}, the ways of this host's LLC less {reserved} reserved",
    "no-such-way": "invalid way {found}: expected 0 to {last}, this host's ways",
    "reserved-in-the-middle": "invalid ways: expected ways at either end of the LLC that leave "
    "contiguous ways for tenants",
    "ways-above": "invalid value {found} ways: expected up to {key}, which is {most}",
    "ways-above-llc": "invalid value {found} ways: expected up to {allowed:also}",
    "size-of-way-unknown": "invalid size {found}: expected a count of ways, because the size of a "
    "way (way_bytes) is not known here",
    "class-name-taken": "invalid name {found!r}: expected a name that iat-nova does not use itself",
    "class-name-used": "invalid name {found!r}: expected a name not used before, {by} has it",
    "class-never-reached": "never reached: {by} matches all guests that this class matches",
    "own-guarantees-share": "the minimums of stack, host and pool are {ways} ways together, the "
    "LLC has {usable} for tenants: some will share",
    "class-guarantees-share": "the minimum of a guest of {class} is {ways:ways}, of stack, host "
    "and pool {own}; the LLC has {usable} for tenants: some will share",
    # tests of policies
    "trial-differs": "{key}: expected {wanted}, found {found}",
    "trial-refused": "the policy cannot be used on this host: {error:also}",
    "trial-other-error": "error: expected {wanted}, found {found:list} ({error:also})",
    "trial-without-facts": "a name needs the facts of a host: facts, or --facts",
    "trial-no-domain": "the host has no cache domain {domain}",
    "trial-no-cpu": "a guest needs at least one CPU",
    "trial-cpus": "the host has CPUs {cpus}",
    "trial-ambiguous": "{count} guests are called {name}: name the UUID",
    "trial-no-such-guest": "no guest is called {name}; the facts have: {guests:list}",
    "trial-no-guests": "no guest is called {name}; the facts have no guests",
    "trial-fixed": "{keys:list} cannot be changed: the host's facts set them",
}
