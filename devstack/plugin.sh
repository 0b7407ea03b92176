#!/bin/bash
#
# DevStack plug-in of iat-nova: the agent on a compute host, and the checks of
# its extra specs in nova-api. devstack/README.rst lists what can be set.

# Save trace setting
_XTRACE_IAT_NOVA=$(set +o | grep xtrace)
set +o xtrace

IAT_NOVA_CPUINFO=${IAT_NOVA_CPUINFO:-/proc/cpuinfo}
IAT_NOVA_RESCTRL=${IAT_NOVA_RESCTRL:-/sys/fs/resctrl}

# Print the [iat] hardware that is used: what was set, or what this host has.
function _iat_nova_hardware {
    if [[ -n "$IAT_NOVA_HARDWARE" ]]; then
        echo "$IAT_NOVA_HARDWARE"
    elif grep -qsw cat_l3 "$IAT_NOVA_CPUINFO"; then
        echo auto
    else
        echo emulated
    fi
}

# Print the [iat] mode that is used: what was set, or the one that can hurt nobody.
function _iat_nova_mode {
    if [[ -n "$IAT_NOVA_MODE" ]]; then
        echo "$IAT_NOVA_MODE"
    elif [[ $(_iat_nova_hardware) == emulated ]]; then
        echo enforce
    else
        echo observe
    fi
}

# Print the command iat-nova as the user who owns the agent's state and hardware.
function _iat_nova_command {
    local command
    command="$(get_python_exec_prefix)/iat-nova"
    if [[ $(_iat_nova_hardware) != emulated ]]; then
        command="sudo $command"
    fi
    echo "$command"
}

# Installed wherever nova-api runs too: Nova finds the validators of iat:*.
function install_iat_nova {
    local extras=metrics
    if [[ $(_iat_nova_hardware) == emulated ]]; then
        extras=metrics,sim
    fi
    setup_develop "$IAT_NOVA_DIR" "$extras"
}

# Into nova.conf: DevStack makes nova-cpu.conf of it when it starts Nova.
function configure_iat_nova {
    local hardware
    hardware=$(_iat_nova_hardware)
    # stack.sh writes nova.conf in the background; of two writers one is undone.
    async_wait configure_neutron_nova
    if [[ "$IAT_NOVA_SPLIT_CPUS" == True ]]; then
        split_cpus_for_iat_nova
    fi
    iniset "$NOVA_CONF" iat mode "$(_iat_nova_mode)"
    iniset "$NOVA_CONF" iat strategy "$IAT_NOVA_STRATEGY"
    iniset "$NOVA_CONF" iat state_dir "$IAT_NOVA_STATE_DIR"
    iniset "$NOVA_CONF" iat metrics_port "$IAT_NOVA_METRICS_PORT"
    iniset "$NOVA_CONF" iat hardware "$hardware"
    if [[ "$hardware" == emulated ]]; then
        iniset "$NOVA_CONF" iat emulated_scenario "$IAT_NOVA_EMULATED_SCENARIO"
        iniset "$NOVA_CONF" iat emulated_seconds "$IAT_NOVA_EMULATED_SECONDS"
    fi
    if [[ -n "$IAT_NOVA_POLICY_FILE" ]]; then
        iniset "$NOVA_CONF" iat policy_file "$IAT_NOVA_POLICY_FILE"
    fi
    if [[ -n "$IAT_NOVA_OVSDB_CONNECTION" ]]; then
        iniset "$NOVA_CONF" iat ovsdb_connection "$IAT_NOVA_OVSDB_CONNECTION"
    elif ! is_service_enabled q-agt ovn-controller; then
        iniset "$NOVA_CONF" iat ovsdb_connection none
    fi
}

# Guests have ways of their own only with CPUs of their own: the upper half.
function split_cpus_for_iat_nova {
    local cpus option
    cpus=$(nproc)
    for option in cpu_dedicated_set cpu_shared_set; do
        if [[ -n "$(iniget "$NOVA_CONF" compute $option)" ]]; then
            return
        fi
    done
    if ((cpus > 1)); then
        iniset "$NOVA_CONF" compute cpu_shared_set "0-$((cpus / 2 - 1))"
        iniset "$NOVA_CONF" compute cpu_dedicated_set \
            "$((cpus / 2))-$((cpus - 1))"
    fi
}

function open_iat_nova_hardware {
    if [[ $(_iat_nova_hardware) != emulated ]]; then
        sudo modprobe msr
        if ! mountpoint -q "$IAT_NOVA_RESCTRL"; then
            sudo mount -t resctrl resctrl "$IAT_NOVA_RESCTRL"
        fi
    fi
}

# nova-compute reads it as it starts, which is after post-config.
function write_iat_nova_provider_config {
    local folder=$NOVA_CONF_DIR/provider_config
    sudo install -d -o "$STACK_USER" -m 0755 "$folder"
    $(_iat_nova_command) --config-file "$NOVA_CONF" provider-config \
        -o "$folder/iat-nova.yaml"
}

# Where Placement's database goes too, the file may go. Elsewhere guests may have
# ways that it offers, and nova-compute would not start without it.
function remove_iat_nova_provider_config {
    local file=$NOVA_CONF_DIR/provider_config/iat-nova.yaml
    if is_service_enabled placement-api; then
        sudo rm -f "$file"
    elif [[ -e "$file" ]]; then
        $(_iat_nova_command) --config-file "$NOVA_CONF" provider-config \
            --withdraw -o "$file"
    fi
}

# The hardware's interfaces are root's; the emulated server needs libvirt alone.
function start_iat_nova {
    local command user=$STACK_USER
    if [[ $(_iat_nova_hardware) != emulated ]]; then
        user=root
    fi
    sudo install -d -o "$user" -m 0755 "$IAT_NOVA_STATE_DIR"
    command="$(get_python_exec_prefix)/iat-nova-agent"
    run_process iat-nova-agent "$command --config-file $NOVA_CPU_CONF" \
        "$LIBVIRT_GROUP" "$user"
}

function create_iat_nova_flavors {
    # Nova checks extra specs from 2.86 on; the client's own version is older.
    local create="openstack --os-compute-api-version 2.86 flavor create"
    $create iat.pc --ram 512 --disk 1 --vcpus 1 \
        --property hw:cpu_policy=dedicated \
        --property iat:priority=PC --property iat:io=auto
    $create iat.be --ram 512 --disk 1 --vcpus 1 \
        --property iat:priority=BE --property iat:io=auto
}

# Fail while the logs are at hand, not in the first test that needs the agent.
# Until its first iteration the agent is starting, and status does not end with 0.
function check_iat_nova {
    test_with_retry \
        "$(_iat_nova_command) --state-dir $IAT_NOVA_STATE_DIR status" \
        "iat-nova-agent does not run; see its log" \
        "$IAT_NOVA_START_TIMEOUT" 1
}

function stop_iat_nova {
    stop_process iat-nova-agent
    if [[ $(_iat_nova_hardware) != emulated ]]; then
        # The agent does so itself unless it was killed.
        $(_iat_nova_command) restore --config-file "$NOVA_CPU_CONF"
    fi
}

function cleanup_iat_nova {
    if [[ $(_iat_nova_hardware) != emulated ]] && \
        ! $(_iat_nova_command) restore --state-dir "$IAT_NOVA_STATE_DIR"; then
        echo_summary "$IAT_NOVA_STATE_DIR stays: not all was restored"
        return 1
    fi
    remove_iat_nova_provider_config
    sudo rm -rf "$IAT_NOVA_STATE_DIR"
}

if is_service_enabled iat-nova-agent n-api; then
    if [[ "$1" == stack && "$2" == install ]]; then
        echo_summary "Installing iat-nova"
        install_iat_nova
    elif [[ "$1" == stack && "$2" == extra ]] && \
        is_service_enabled n-api && [[ "$IAT_NOVA_FLAVORS" == True ]]; then
        echo_summary "Creating iat-nova's flavors"
        create_iat_nova_flavors
    fi
fi

if is_service_enabled iat-nova-agent; then
    if [[ "$1" == stack && "$2" == post-config ]]; then
        echo_summary "Configuring iat-nova"
        configure_iat_nova
        open_iat_nova_hardware
        if [[ "$IAT_NOVA_PROVIDER_CONFIG" == True ]]; then
            write_iat_nova_provider_config
        fi
    elif [[ "$1" == stack && "$2" == extra ]]; then
        echo_summary "Starting iat-nova"
        start_iat_nova
    elif [[ "$1" == stack && "$2" == test-config ]]; then
        echo_summary "Checking iat-nova"
        check_iat_nova
    elif [[ "$1" == unstack ]]; then
        stop_iat_nova
    elif [[ "$1" == clean ]]; then
        cleanup_iat_nova
    fi
fi

# Restore xtrace
$_XTRACE_IAT_NOVA
