# SPDX-License-Identifier: Apache-2.0
#
# What up.sh and second.sh share; both stand in the folder of their host.

say() { printf '%4d s  %s\n' "$SECONDS" "$1"; }
start() {
    local name=$1
    shift
    "$@" >"log/$name.out" 2>&1 </dev/null &
}
until_ok() {
    local deadline
    deadline=$((SECONDS + 180))
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS > deadline)); then
            echo "gave up: $*" >&2
            return 1
        fi
        sleep 0.1
    done
}
listening() { exec 3<>"/dev/tcp/127.0.0.1/$1"; }
nova() {
    local program=$1
    shift
    "$PYTHON" "$NOVA/bin/nova-$program" "$@"
}
sql() { mariadb -S run/mysql.sock -u root "$@"; }

# The folders of the machine's own libvirt, for this host alone; further ones as arguments.
own_folders() {
    local pair
    mkdir -p lv/{etc,run,lib,cache,log}
    cp -a /etc/libvirt/. lv/etc/
    cp etc/qemu.conf lv/etc/
    for pair in lv/etc:/etc/libvirt lv/run:/run/libvirt lv/lib:/var/lib/libvirt \
        lv/cache:/var/cache/libvirt lv/log:/var/log/libvirt "$@"; do
        mkdir -p "${pair#*:}"
        mount --bind "${pair%%:*}" "${pair#*:}"
    done
}

# Start and stop nova-compute, the arguments' program, as standard input says; each line is answered
# by a line.
obey() {
    local line compute=
    while read -r line; do
        case $line in
            start)
                start compute "$@"
                compute=$!
                ;;
            stop)
                kill "$compute" || true # it may have ended by itself
                wait "$compute" || true
                ;;
        esac
        if kill -0 "$compute" 2>/dev/null; then echo runs; else echo ended; fi
    done
}
