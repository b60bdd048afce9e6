# In the guest: devices of Soft-RoCE.

# address GID DEVICE: waits until the device has it.
address() {
  local i
  for i in $(seq 50); do
    grep -q "$1" "/sys/class/infiniband/$2/ports/1/gids/1" && return
    sleep 0.1
  done
  return 1
}

# What there is from the start: rxe0, at the end of the wire to another machine if there is one.
adapters() {
  if [ -e /sys/class/net/eth0 ]; then wired_adapter; else one_adapter; fi
}

# rxe0, on eth0: 10.88.0.1 and 10.88.0.2.
wired_adapter() {
  ip link set lo up
  ip link set eth0 mtu 4500
  ip addr add 10.88.0.$((1 + VM_HOST))/24 dev eth0
  ip link set eth0 up
  rdma link add rxe0 type rxe netdev eth0 && address ffff:0a58:000$((1 + VM_HOST)) rxe0
}

# rxe0, on an interface that leads nowhere but back.
one_adapter() {
  ip link set lo up
  modprobe dummy numdummies=0
  ip link add d0 type dummy
  ip link set d0 mtu 4500
  ip addr add 10.77.0.1/24 dev d0
  ip link set d0 up
  rdma link add rxe0 type rxe netdev d0 && address ffff:0a4d:0001 rxe0
}

# rxe1 beside rxe0, on an interface of its own that leads nowhere but back: one adapter does not reach the other.
second_adapter() {
  ip link add d1 type dummy
  ip link set d1 mtu 4500
  ip addr add 10.77.1.1/24 dev d1
  ip link set d1 up
  rdma link add rxe1 type rxe netdev d1 && address ffff:0a4d:0101 rxe1
}

# rxe_0 and rxe_1, at the ends of a wire that takes 1 ms and loses packets.  The kernel would not use it between two
# addresses of its own: its table of those comes last.
two_adapters() {
  local i
  modprobe veth && modprobe sch_netem || return 1
  ip link add w0 type veth peer name w1
  echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
  for i in 0 1; do
    ip link set w$i mtu 4500
    echo 0 >/proc/sys/net/ipv4/conf/w$i/rp_filter
    echo 1 >/proc/sys/net/ipv4/conf/w$i/accept_local
    ip addr add 10.79.0.$((1 + i))/32 dev w$i
    ip link set w$i up
  done
  for i in 0 1; do
    local here=10.79.0.$((1 + i)) there=10.79.0.$((2 - i))
    ip rule add pref $((1 + i)) iif w$i lookup local
    ip rule add pref $((3 + i)) from $here to $there lookup $((100 + i))
    ip route add $there dev w$i src $here table $((100 + i))
    ip neigh add $there lladdr "$(cat /sys/class/net/w$((1 - i))/address)" dev w$i
  done
  ip rule add pref 100 lookup local
  ip rule del pref 0
  for i in 0 1; do
    tc qdisc add dev w$i root netem delay 1ms loss 0.5%
    rdma link add rxe_$i type rxe netdev w$i && address ffff:0a4f:000$((1 + i)) rxe_$i || return 1
  done
}
