# SPDX-License-Identifier: Apache-2.0
"""The nouns of iat-nova: frozen values without I/O and without a clock.

Three groups, in the order in which the loop uses them:

* **facts**: observations of the inventory (`HostFacts`, `Guest`, `VirtualSwitch`, all in `Facts`);
* **tenants**: the policy's classification (`Tenant`, one `DomainInventory` a cache domain);
* **decisions**: measurements and decisions (`Sample`, `Allocation`, `Layout`, `Decision`).

Names carry units. A value that is not available is ``None``, never zero.
"""

from iat_nova.model.decisions import (
    DDIO,
    UNLIMITED,
    Action,
    Allocation,
    Change,
    Decision,
    Group,
    Layout,
    Parameters,
    PortGroup,
    PortRates,
    Quantity,
    Rates,
    Sample,
    Step,
)
from iat_nova.model.devices import pci_address
from iat_nova.model.facts import (
    EIGHTHS,
    USERSPACE,
    Attachment,
    AttachmentKind,
    BandwidthControl,
    CacheDomain,
    DcaPort,
    DeviceModel,
    DevicePort,
    Facts,
    Guest,
    HostFacts,
    Nic,
    PmdThread,
    Source,
    SourceProblem,
    SwitchPort,
    Trouble,
    VirtualSwitch,
)
from iat_nova.model.message import (
    VERBATIM,
    Message,
    message,
    verbatim,
)
from iat_nova.model.tenants import (
    DomainInventory,
    Hold,
    Pause,
    Priority,
    Tenant,
    TenantKind,
    WayRequest,
    own_warnings,
)
from iat_nova.model.ways import (
    WAYS_LIMIT,
    WayMask,
)
