# In the guest: a Soft-RoCE device on an interface that leads nowhere but back, and waits until it has its address.
ip link set lo up
modprobe dummy numdummies=0
ip link add d0 type dummy
ip link set d0 mtu 4500
ip addr add 10.77.0.1/24 dev d0
ip link set d0 up
rdma link add rxe0 type rxe netdev d0 || exit 1
for i in $(seq 50); do
  grep -q 'ffff:0a4d:0001' /sys/class/infiniband/rxe0/ports/1/gids/1 && break
  sleep 0.1
done
hostname vm
echo '127.0.0.1 vm localhost' >>/etc/hosts
