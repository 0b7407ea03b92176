#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Starts what a Nova host and its controller consist of, in $DIR; cloud.py runs
# it as process 1 of private network, process and mount namespaces, so that no
# port, interface or process of the machine's own is met, and all end with it.
#
# DIR: a folder whose etc/ holds the configuration. HOST: the host's name. NOVA: the environment with
# Nova. PYTHON: the one on top of it with iat-nova. HUGE: where huge pages are
# to be mounted, for DPDK and guests; empty: there are none. AUTH_URL and
# PASSWORD: Keystone's address and its administrator's password.
#
# Prints "ready" when everything but nova-compute runs, and that is started,
# stopped and asked for by a line on standard input, whose end ends all.
set -eu
HERE=$(cd "$(dirname "$0")" && pwd)
export PATH=$NOVA/bin:/usr/sbin:/sbin:$PATH LC_ALL=C.UTF-8
cd "$DIR"
mkdir -p run log lock keystone state/instances provider_config iat huge ovs mysql-tmp
mkdir -p rabbit/{mnesia,log}
CONF="--config-file etc/nova.conf"

source "$HERE/services.sh"

function prepare_namespaces {
    hostname "$HOST" # Watcher finds hosts by this name and by nova-compute's, as if they were one
    # /sys shows the interfaces of the namespace it was mounted in.
    mount -t sysfs sysfs /sys
    if [[ -n "$HUGE" ]]; then
        mount -t hugetlbfs hugetlbfs "$HUGE"
    fi
    ip link set lo up
    own_folders ovs:/run/openvswitch
}

# Open vSwitch in userspace, without PMD threads until a test wants them.
function start_switch {
    export OVS_RUNDIR=$DIR/ovs OVS_DBDIR=$DIR/ovs OVS_SYSCONFDIR=$DIR/ovs OVS_LOGDIR=$DIR/log
    local vsctl="ovs-vsctl --timeout=20 --db=unix:$DIR/ovs/db.sock" program=ovs-vswitchd
    ovsdb-tool create ovs/conf.db /usr/share/openvswitch/vswitch.ovsschema
    start ovsdb ovsdb-server ovs/conf.db "--remote=punix:$DIR/ovs/db.sock" --unixctl="$DIR/ovs/ovsdb.ctl"
    until_ok $vsctl --no-wait init
    if [[ -n "$HUGE" ]]; then
        program=/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk
        # Idle PMD threads sleep; the option's name changed after Open vSwitch 3.1.
        $vsctl --no-wait set Open_vSwitch . other_config:dpdk-init=true \
            other_config:dpdk-socket-mem=128 other_config:dpdk-extra="--no-pci --in-memory" \
            other_config:pmd-maxsleep=500 other_config:pmd-sleep-max=500
    fi
    start vswitchd $program "unix:$DIR/ovs/db.sock" --pidfile="$DIR/ovs/ovs-vswitchd.pid"
    $vsctl add-br br-int -- set bridge br-int datapath_type=netdev
}

function start_messages {
    # Erlang's name server by hand, else the broker starts one on every address.
    start epmd epmd -address 127.0.0.1
    export HOME=$DIR/rabbit ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_NODENAME=iat@localhost
    export RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_PID_FILE=$DIR/rabbit/pid
    export RABBITMQ_MNESIA_BASE=$DIR/rabbit/mnesia RABBITMQ_LOG_BASE=$DIR/rabbit/log
    export RABBITMQ_ENABLED_PLUGINS_FILE=$DIR/rabbit/plugins RABBITMQ_CONFIG_FILE=$DIR/rabbit/none
    start rabbit /usr/lib/rabbitmq/bin/rabbitmq-server
}

function start_database {
    mariadb-install-db --defaults-file=etc/my.cnf --auth-root-authentication-method=normal \
        >log/mysql-install.out 2>&1
    start mysql mariadbd --defaults-file=etc/my.cnf
    until_ok sql -e 'select 1'
    local name
    for name in keystone nova_api nova_cell0 nova_cell1 placement; do
        sql -e "create database $name"
    done
}

function make_schemas {
    local manage="nova manage $CONF --config-file etc/db.conf"
    local cell0=mysql+pymysql://root@127.0.0.1:3306/nova_cell0
    $manage api_db sync
    $manage cell_v2 map_cell0 --database_connection "$cell0"
    $manage cell_v2 create_cell --name cell1 &
    local cell=$!
    $manage db sync # of cell0, then of the cell in db.conf
    wait $cell
}

prepare_namespaces
start_switch
start_messages
start libvirtd libvirtd -p "$DIR/run/libvirtd.pid"
# libvirt tries QEMU out for some 8 s when it is first asked; meanwhile:
until_ok virsh -c "$LIBVIRT_URI" capabilities &
tried=$!
start_database
say "MariaDB runs"
export OS_KEYSTONE_CONFIG_DIR=$DIR/etc
start identity "$PYTHON" "$HERE/identity.py" etc/keystone.conf "$PASSWORD" "$AUTH_URL"
make_schemas >log/manage.out 2>&1
say "the databases are made"
truncate -s 1M empty.raw
export OS_NOVA_CONFIG_DIR=$DIR/etc OS_NOVA_CONFIG_FILES='api-paste.ini;nova.conf;db.conf'
export OS_PLACEMENT_CONFIG_DIR=$DIR/etc
until_ok grep -q ^ready log/identity.out
start web "$PYTHON" "$HERE/web.py" empty.raw
until_ok listening 5672
start conductor nova conductor $CONF --config-file etc/db.conf
until_ok grep -q ^ready log/web.out # nova-scheduler asks Placement as it starts
start scheduler nova scheduler $CONF --config-file etc/db.conf
until_ok grep -q 'Starting conductor node' log/nova-conductor.log # else its first answer takes 10 s
wait $tried
say "Keystone, nova-api, Placement, RabbitMQ and libvirt run"
echo ready
obey "$PYTHON" "$NOVA/bin/nova-compute" $CONF
