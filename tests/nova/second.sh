#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Starts a second compute host in $DIR: a name, process and mount namespaces of
# its own in the network of the first. second.py runs it; its end is a power cut.
#
# DIR, HOST, NOVA, PYTHON, LIBVIRT_URI: as up.sh has them. CPUS: a folder that
# nova-compute sees as /sys/devices/system/cpu, and nobody else. OWN_INSTANCES:
# a folder that is mounted over INSTANCES, so that disks are not shared; or empty.
#
# Prints "ready" when libvirt answers; then as up.sh.
set -eu
HERE=$(cd "$(dirname "$0")" && pwd)
export PATH=$NOVA/bin:/usr/sbin:/sbin:$PATH LC_ALL=C.UTF-8
cd "$DIR"
mkdir -p run log lock state provider_config iat
CONF="--config-file etc/nova.conf"
source "$HERE/services.sh"

hostname "$HOST"
mount -t sysfs sysfs /sys
rm -rf lv/run # as after a boot
own_folders
echo 'host_uuid = "5ec04d00-0000-4000-8000-000000000002"' >>lv/etc/libvirtd.conf # not the first's
if [[ -n "$OWN_INSTANCES" ]]; then
    mkdir -p "$OWN_INSTANCES"
    mount --bind "$OWN_INSTANCES" "$INSTANCES"
fi
rm -f lv/etc/qemu/networks/autostart/* # the first host has that bridge
start libvirtd libvirtd -p "$DIR/run/libvirtd.pid"
until_ok virsh -c "$LIBVIRT_URI" capabilities
say "libvirt of the second host runs"
echo ready
# shellcheck disable=SC2016 # the inner shell's
obey unshare --mount sh -c 'mount --bind "$CPUS" /sys/devices/system/cpu; exec "$@"' nova-compute \
    "$PYTHON" "$NOVA/bin/nova-compute" $CONF
